// SPDX-License-Identifier: Apache-2.0

package changeplan

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
)

// takenOver are the paths of fields that Capstan's controllers write in another form than
// upstream's, and that decide about no Machine: the label of the Cluster on templates,
// the order of readiness gates, texts of conditions, and conditions of old versions.
var takenOver = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(metadata\.(finalizers|annotations|ownerReferences|labels\[cluster\.x-k8s\.io/cluster-name\])|spec\.readinessGates|` +
		`status\.(deprecated|observedGeneration)|status\.conditions\[[^]]*\]\.(message|reason|lastTransitionTime|observedGeneration))`)
})

// decides reports whether a difference is more than what Capstan's controllers write once
// when they take over an object from other controllers: another form of metadata and
// conditions, and conditions that others do not have. The status of a MachineHealthCheck
// repeats that of its Machines; upstream's controller does not write it when one is gone.
func decides(d planv1.Object) bool {
	if d.Action != planv1.Changed || len(d.Fields) >= outcome.MaxFields {
		return true // or its fields are not all listed
	}
	return slices.ContainsFunc(d.Fields, func(f planv1.Field) bool {
		repeats := d.Kind == "MachineHealthCheck" && strings.HasPrefix(f.Path, "status.")
		added := f.From == "" && strings.HasPrefix(f.Path, "status.conditions[") && (strings.HasSuffix(f.Path, "].type") || strings.HasSuffix(f.Path, "].status"))
		return !repeats && !takenOver().MatchString(f.Path) && !added
	})
}
