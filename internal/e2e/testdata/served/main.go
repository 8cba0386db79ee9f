// SPDX-License-Identifier: Apache-2.0

// Command served is a provider's controller for the test of what a plane runs: it
// calls the API server as its ServiceAccount, and answers as a webhook that refuses
// ConfigMaps named bad.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	if len(os.Args) > 1 {
		panic("I was asked to")
	}
	fmt.Println("serving")
	http.HandleFunc("/api", func(w http.ResponseWriter, _ *http.Request) {
		status, err := ask("https://kubernetes.default.svc/api/v1/namespaces/default")
		fmt.Fprint(w, status, err)
	})
	http.HandleFunc("/review", review)
	go func() { panic(http.ListenAndServe(":8080", nil)) }()
	panic(http.ListenAndServeTLS(":8443", "/certs/tls.crt", "/certs/tls.key", nil))
}

// ask is the status by which the API server answers the Pod's ServiceAccount.
func ask(url string) (status string, err error) {
	ca, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return "", err
	}
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	return res.Status, res.Body.Close()
}

func review(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Request struct{ UID, Name string } `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := map[string]any{"uid": asked.Request.UID, "allowed": asked.Request.Name != "bad", "status": map[string]any{"message": "it is bad"}}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}
