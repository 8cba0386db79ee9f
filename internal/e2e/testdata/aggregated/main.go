// SPDX-License-Identifier: Apache-2.0

// Command aggregated is an API server of a Pod for the test of aggregated APIs: it has
// one object of one kind, and serves with the certificate that its files hold by now.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
)

type object = map[string]any

const group = "things.example.com/v1"

// answers are by their paths; the one thing has the number of the certificate.
func answers(serial string) map[string]object {
	return map[string]object{
		"/apis/" + group: {
			"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group,
			"resources": []object{{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": []string{"get", "list"}}},
		},
		"/apis/" + group + "/namespaces/default/things": {
			"kind": "ThingList", "apiVersion": group, "metadata": object{},
			"items": []object{{"kind": "Thing", "apiVersion": group, "metadata": object{"name": "one", "namespace": "default"}, "serial": serial}},
		},
	}
}

func main() {
	fmt.Println("serving")
	server := http.Server{
		Addr: ":8443",
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			serial, err := serial()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer, ok := answers(serial)[r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer)
		}),
		TLSConfig: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair("/certs/tls.crt", "/certs/tls.key")
			return &c, err
		}},
	}
	panic(server.ListenAndServeTLS("", ""))
}

// serial is the number of the certificate that the files hold.
func serial() (string, error) {
	text, err := os.ReadFile("/certs/tls.crt")
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("there is no certificate")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	return c.SerialNumber.String(), nil
}
