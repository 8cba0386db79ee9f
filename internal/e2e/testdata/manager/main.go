// SPDX-License-Identifier: Apache-2.0

// Command manager is a fake of the controllers of other providers, whose images no
// test can pull. It takes their arguments, refuses unknown ones, serves the ports
// that they serve, and answers as their webhooks and conversions do to objects that
// need no change; it refuses one whose name starts with "bad".
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// serving is where a provider built with Kubebuilder expects its certificate.
const serving = "/tmp/k8s-webhook-server/serving-certs"

func main() {
	diagnostics := flag.String("diagnostics-address", "", "where metrics are")
	insecure := flag.Bool("insecure-diagnostics", false, "whether they are in the clear")
	elect := flag.Bool("leader-elect", false, "whether one of several leads")
	gates := flag.String("feature-gates", "", "what is on")
	level := flag.Int("v", -1, "level of the log")
	flag.Parse()
	groups, err := os.Getgroups()
	fmt.Println("manager", "elect", *elect, "level", *level, "insecure", *insecure, "arguments", flag.Args())
	fmt.Println("gates", *gates)
	fmt.Println("user", os.Getuid(), "group", os.Getgid(), "groups", groups, err)
	if err := credentials(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	pair := []string{filepath.Join(serving, "tls.crt"), filepath.Join(serving, "tls.key")}

	health := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		health.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	}
	metrics := http.NewServeMux()
	metrics.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "stand_in 1") })
	hooks := http.NewServeMux()
	hooks.HandleFunc("/convert", convert)
	hooks.HandleFunc("/", review)

	failed := make(chan error)
	go func() { failed <- http.ListenAndServe(":9440", health) }()
	go func() { failed <- http.ListenAndServeTLS(":9443", pair[0], pair[1], hooks) }()
	go func() {
		if *insecure {
			failed <- http.ListenAndServe(*diagnostics, metrics)
		} else {
			failed <- http.ListenAndServeTLS(*diagnostics, pair[0], pair[1], metrics)
		}
	}()
	fmt.Println(<-failed)
	os.Exit(1)
}

// credentials prints the size of the credentials file of a provider for AWS, if it
// has one.
func credentials() error {
	name := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if name == "" {
		return nil
	}
	content, err := os.ReadFile(name)
	fmt.Println("credentials", len(content), "bytes")
	return err
}

// review answers an AdmissionReview of the version that it is of.
func review(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct{ UID, Name, Operation string }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Kind != "AdmissionReview" {
		http.Error(w, fmt.Sprintf("%s is no AdmissionReview: %v", asked.Kind, err), http.StatusBadRequest)
		return
	}
	fmt.Println("review", r.URL.Path, asked.APIVersion, asked.Request.Operation, asked.Request.Name)
	response := map[string]any{"uid": asked.Request.UID, "allowed": !strings.HasPrefix(asked.Request.Name, "bad"), "status": map[string]any{"message": r.URL.Path + " finds it bad"}}
	answer(w, map[string]any{"apiVersion": asked.APIVersion, "kind": asked.Kind, "response": response})
}

// convert sets the requested version on each object, and changes nothing else.
func convert(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Kind != "ConversionReview" {
		http.Error(w, fmt.Sprintf("%s is no ConversionReview: %v", asked.Kind, err), http.StatusBadRequest)
		return
	}
	for _, obj := range asked.Request.Objects {
		fmt.Println("convert", obj["kind"], "from", obj["apiVersion"], "to", asked.Request.DesiredAPIVersion)
		obj["apiVersion"] = asked.Request.DesiredAPIVersion
	}
	response := map[string]any{"uid": asked.Request.UID, "convertedObjects": asked.Request.Objects, "result": map[string]any{"status": "Success"}}
	answer(w, map[string]any{"apiVersion": asked.APIVersion, "kind": asked.Kind, "response": response})
}

func answer(w http.ResponseWriter, review any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
