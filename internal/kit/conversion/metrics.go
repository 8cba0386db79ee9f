// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "capi_conversion_duration_seconds",
	Help:    "Time of the conversion of one object by kind, the version that it is converted to, who asks and the result; growth of the count means clients of old versions, each result error a request that was refused.",
	Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1, 1},
}, []string{"group", "kind", "to", "by", "result"})

// The registry is controller-runtime's own, which is a package variable there;
// registering once at load is its documented use.
var _ = register()

func register() bool {
	ctrlmetrics.Registry.MustRegister(seconds)
	return true
}

func observe(kind schema.GroupKind, to, by string, start time.Time, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	seconds.WithLabelValues(kind.Group, kind.Kind, to, by, result).Observe(time.Since(start).Seconds())
}
