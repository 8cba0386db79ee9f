// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	reconcileTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capi_reconcile_total",
		Help: "Reconciles by controller and result; a growing share of error means objects that cannot be brought to what they ask for.",
	}, []string{"controller", "result"})
	reconcileSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capi_reconcile_time_seconds",
		Help:    "Time of a reconcile by controller and result; growth means a slow API server or workload cluster.",
		Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"controller", "result"})
	staleSkips = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capi_reconcile_stale_cache_skips_total",
		Help: "Reconciles delayed because the cache did not have the last writes yet; growth means watches that lag.",
	}, []string{"controller"})
)

// The registry is controller-runtime's own, which is a package variable there;
// registering once at load is its documented use.
var _ = register()

func register() bool {
	ctrlmetrics.Registry.MustRegister(reconcileTotal, reconcileSeconds, staleSkips)
	return true
}

func observe(controller string, started time.Time, res reconcile.Result, err error) {
	result := "success"
	switch {
	case err != nil:
		result = "error"
	case res.RequeueAfter > 0:
		result = "requeue_after"
	}
	reconcileTotal.WithLabelValues(controller, result).Inc()
	reconcileSeconds.WithLabelValues(controller, result).Observe(time.Since(started).Seconds())
}
