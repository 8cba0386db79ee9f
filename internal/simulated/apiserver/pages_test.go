// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
)

const configMapsPath = "/api/v1/namespaces/default/configmaps"

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
