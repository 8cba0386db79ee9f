// SPDX-License-Identifier: Apache-2.0

// Command manager is what runs in place of the controllers of a real provider in the
// test of releases: it does nothing for their objects, but is probed and asked where they
// would be. It refuses what is named bad, and takes all versions of an object for alike.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

// certificates is where controller-runtime has those of webhooks.
const certificates = "/tmp/k8s-webhook-server/serving-certs/"

type object = map[string]any

func main() {
	fmt.Println("in place of", os.Args)
	well := func(http.ResponseWriter, *http.Request) {}
	probed := http.NewServeMux()
	probed.HandleFunc("/healthz", well)
	probed.HandleFunc("/readyz", well)
	go func() { panic(http.ListenAndServe(":9440", probed)) }()
	panic(http.ListenAndServeTLS(":9443", certificates+"tls.crt", certificates+"tls.key", http.HandlerFunc(review)))
}

// review answers both reviews of the API server.
func review(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		APIVersion, Kind string
		Request          struct {
			UID, Name         string
			DesiredAPIVersion string
			Objects           []object
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := object{"uid": asked.Request.UID}
	if asked.Kind == "ConversionReview" {
		for _, o := range asked.Request.Objects {
			o["apiVersion"] = asked.Request.DesiredAPIVersion
		}
		response["convertedObjects"], response["result"] = asked.Request.Objects, object{"status": "Success"}
	} else {
		response["allowed"], response["status"] = asked.Request.Name != "bad", object{"message": "it is bad"}
	}
	_ = json.NewEncoder(w).Encode(object{"apiVersion": asked.APIVersion, "kind": asked.Kind, "response": response})
}
