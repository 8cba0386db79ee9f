// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/kit/handlertransport"
)

// serving returns an API server with definitions, by name and labels.
func serving(t *testing.T, labels map[string]map[string]string, asked func()) *rest.Config {
	t.Helper()
	return &rest.Config{Host: "http://in-process", Transport: handlertransport.Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked()
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Has("sendInitialEvents") { // which an API server need not support
			w.WriteHeader(http.StatusUnprocessableEntity)
			if err := json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}); err != nil {
				t.Error(err)
			}
			return
		}
		if r.URL.Query().Has("watch") {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
		for name, labels := range labels {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			})
		}
		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Error(err)
		}
	}))}
}

func TestVersionsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	w := NewCRDVersions()
	asked := make(chan struct{}, 100)
	stop, err := w.Connect(serving(t, map[string]map[string]string{
		"hosts.x.io":   {"cluster.x-k8s.io/v1beta1": "v1alpha1_v1", "cluster.x-k8s.io/v1beta2": ""},
		"proxies.x.io": {"cluster.x-k8s.io/v1beta1": "v1", "cluster.x-k8s.io/v1beta2": "v2"},
		"others.x.io":  {"app": "x"},
	}, func() { asked <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if len(asked) > 0 {
		t.Error("the API server is called before the first request")
	}
	for kind, want := range map[string]string{
		"Host":   "x.io/v1",
		"Proxy":  "x.io/v2",
		"Absent": "x.io/v1beta1",
		"Other":  "error: CRD others.x.io: no label cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1 lists the API versions that follow the contract: install the provider's CRDs with their labels, or set one by: kubectl label crd NAME cluster.x-k8s.io/v1beta2=VERSION",
	} {
		got, err := w.Version(schema.GroupKind{Group: "x.io", Kind: kind})
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", kind, got, want)
		}
	}
}

func TestQuestionsWaitForTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, start := NewCRDVersions(), time.Now()
		if _, err := w.Version(schema.GroupKind{Kind: "Host"}); err == nil || time.Since(start) != timeout {
			t.Errorf("after %s: %v, want an error after %s", time.Since(start), err, timeout)
		}
		var stop func()
		time.AfterFunc(time.Second, func() {
			var err error
			if stop, err = w.Connect(serving(t, map[string]map[string]string{"hosts.x.io": {"cluster.x-k8s.io/v1beta2": "v2"}}, func() {})); err != nil {
				t.Error(err)
			}
		})
		if got, err := w.Version(schema.GroupKind{Group: "x.io", Kind: "Host"}); got != "x.io/v2" || err != nil {
			t.Errorf("got %s, %v", got, err)
		}
		stop()
	})
}
