// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The names and labels are those that existing dashboards use.
var (
	clusterLabels = []string{"cluster_name", "cluster_namespace"}

	connectionUp = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capi_cluster_cache_connection_up",
		Help: "Whether a workload cluster is connected; 0 means that nothing in it can be seen or changed.",
	}, clusterLabels)
	healthcheck = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capi_cluster_cache_healthcheck",
		Help: "Whether the last health check of a workload cluster succeeded.",
	}, clusterLabels)
	healthchecks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capi_cluster_cache_healthchecks_total",
		Help: "Health checks of workload clusters by status; growing errors mean an API server that does not answer.",
	}, append([]string{"status"}, clusterLabels...))
)

var _ = register()

func register() bool {
	ctrlmetrics.Registry.MustRegister(connectionUp, healthcheck, healthchecks)
	return true
}

func setUp(key client.ObjectKey, up bool) {
	connectionUp.WithLabelValues(key.Name, key.Namespace).Set(number(up))
}

func countProbe(key client.ObjectKey, err error) {
	status := "success"
	if err != nil {
		status = "error"
	}
	healthcheck.WithLabelValues(key.Name, key.Namespace).Set(number(err == nil))
	healthchecks.WithLabelValues(status, key.Name, key.Namespace).Inc()
}

func forgetMetrics(key client.ObjectKey) {
	labels := prometheus.Labels{"cluster_name": key.Name, "cluster_namespace": key.Namespace}
	connectionUp.DeletePartialMatch(labels)
	healthcheck.DeletePartialMatch(labels)
	healthchecks.DeletePartialMatch(labels)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
