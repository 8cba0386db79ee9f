// SPDX-License-Identifier: Apache-2.0

package crdmigrator

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var objects = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capi_crd_migrated_objects_total",
	Help: "Objects that were written because a definition has changed, by kind and phase; it grows after an update of the definitions, and stops when their old versions may go.",
}, []string{"group", "kind", "phase"})

// The registry is controller-runtime's own, which is a package variable there;
// registering once at load is its documented use.
var _ = register()

func register() bool {
	ctrlmetrics.Registry.MustRegister(objects)
	return true
}

// count counts the objects of a step. One that was written for its managedFields
// was stored as well, and is counted once.
func count(kind schema.GroupVersionKind, stored, cleaned int) {
	objects.WithLabelValues(kind.Group, kind.Kind, string(CleanupManagedFields)).Add(float64(cleaned))
	objects.WithLabelValues(kind.Group, kind.Kind, string(StorageVersionMigration)).Add(float64(max(stored-cleaned, 0)))
}
