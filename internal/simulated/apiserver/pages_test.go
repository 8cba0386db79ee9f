// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const configMapsPath = "/api/v1/namespaces/default/configmaps"

func names(t *testing.T, list *unstructured.Unstructured) string {
	t.Helper()
	var names []string
	for _, item := range at(t, list, "items").([]any) {
		names = append(names, (&unstructured.Unstructured{Object: item.(map[string]any)}).GetName())
	}
	return strings.Join(names, " ")
}

func TestPagesShowOneVersionUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	c := start(t)
	admin := c.admin(t)
	add := func(name, data string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"x": data}}
		if err := c.Store().Ensure(cm); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "d", "e"} {
		add(name, "")
	}
	first := call(t, admin, http.StatusOK, "GET", configMapsPath+"?limit=2", "", "")
	token, version := url.QueryEscape(at(t, first, "metadata", "continue").(string)), first.GetResourceVersion()
	add("c", "")
	if err := c.Store().Remove(corev1.SchemeGroupVersion.WithResource("configmaps"), "default", "d"); err != nil {
		t.Fatal(err)
	}
	second := call(t, admin, http.StatusOK, "GET", configMapsPath+"?limit=2&continue="+token, "", "")
	if got := names(t, second); got != "d e" || second.GetResourceVersion() != version || at(t, first, "metadata", "remainingItemCount") != int64(2) {
		t.Errorf("the second page shows %s at %s, want d e at %s", got, second.GetResourceVersion(), version)
	}
	if got := names(t, call(t, admin, http.StatusOK, "GET", configMapsPath+"?resourceVersionMatch=Exact&resourceVersion="+version, "", "")); got != "a b d e" {
		t.Errorf("at the first version: %s", got)
	}

	add("b", strings.Repeat("x", 400<<10))
	add("b", strings.Repeat("y", 400<<10))
	expired := call(t, admin, http.StatusGone, "GET", configMapsPath+"?limit=2&continue="+token, "", "")
	call(t, admin, http.StatusGone, "GET", configMapsPath+"?resourceVersionMatch=Exact&resourceVersion="+version, "", "")
	rest := call(t, admin, http.StatusOK, "GET", configMapsPath+"?continue="+url.QueryEscape(at(t, expired, "metadata", "continue").(string)), "", "")
	if got := names(t, rest); got != "c e" || at(t, expired, "reason") != string(metav1.StatusReasonExpired) {
		t.Errorf("the rest is %s, %v", got, expired.Object)
	}
}

func TestWhatNeedsAMachineSaysThatItIsSimulated(t *testing.T) {
	t.Parallel()
	c := start(t)
	if err := c.Store().Add(pod("p", nil)); err != nil {
		t.Fatal(err)
	}
	if err := c.Store().Add(node("n")); err != nil {
		t.Fatal(err)
	}
	admin := c.admin(t)
	for _, path := range []string{"/api/v1/namespaces/default/pods/p/log", "/api/v1/namespaces/default/pods/p/exec?command=ls", "/api/v1/namespaces/default/pods/p/attach", "/api/v1/nodes/n/proxy/metrics"} {
		if got := at(t, call(t, admin, http.StatusBadRequest, "GET", path, "", ""), "message").(string); !strings.Contains(got, "is simulated") {
			t.Errorf("%s: %s", path, got)
		}
	}
	call(t, admin, http.StatusNotFound, "GET", "/api/v1/namespaces/default/pods/nope/log", "", "")
}

func TestAnEventIsServedByTwoGroups(t *testing.T) {
	t.Parallel()
	admin := start(t).admin(t)
	const event = `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"c","reportingInstance":"i",
		"action":"Act","reason":"Because","type":"Normal","note":"something","regarding":{"kind":"Pod","name":"p","namespace":"default"}}`
	call(t, admin, http.StatusCreated, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", "", event)
	core := call(t, admin, http.StatusOK, "GET", "/api/v1/namespaces/default/events/e", "", "")
	if at(t, core, "message") != "something" || at(t, core, "involvedObject", "name") != "p" || core.GetAPIVersion() != "v1" {
		t.Errorf("in the core group %v", core.Object)
	}
	own := call(t, admin, http.StatusOK, "PATCH", "/apis/events.k8s.io/v1/namespaces/default/events/e", asMerge, `{"note":"more"}`)
	if at(t, own, "note") != "more" || at(t, own, "regarding", "name") != "p" || at(t, own, "message") != nil {
		t.Errorf("in its own group %v", own.Object)
	}
}

func TestAnAutoscalerKeepsItsMetricsInBothVersions(t *testing.T) {
	t.Parallel()
	admin := start(t).admin(t)
	const second = `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"},
		"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}},{"type":"Resource","resource":{"name":"memory","target":{"type":"Utilization","averageUtilization":50}}}]}}`
	call(t, admin, http.StatusCreated, "POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", "", second)
	first := call(t, admin, http.StatusOK, "GET", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/h", "", "")
	if at(t, first, "spec", "targetCPUUtilizationPercentage") != int64(70) {
		t.Errorf("in the first version %v", first.Object)
	}
	call(t, admin, http.StatusOK, "PATCH", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/h", asMerge, `{"spec":{"targetCPUUtilizationPercentage":60}}`)
	again := call(t, admin, http.StatusOK, "GET", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/h", "", "")
	if metrics := at(t, again, "spec", "metrics").([]any); len(metrics) != 2 {
		t.Errorf("in the second version again %v", again.Object)
	}
}
