// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/warning"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// upstreamFinalizers have no path in their names. Each user who creates an object
// gets a warning for it, because the finalizer is added at creation, and cannot
// avoid it: other programs use these names.
var upstreamFinalizers = []string{
	clusterv1.ClusterFinalizer, clusterv1.MachineFinalizer, clusterv1.MachinePoolFinalizer,
	clusterv1.MachineDeploymentTopologyFinalizer, clusterv1.MachineSetTopologyFinalizer,
	controlplanev1.KubeadmControlPlaneFinalizer, addonsv1.ClusterResourceSetFinalizer,
}

// withoutKnownWarnings drops warnings about upstreamFinalizers. Clients receive all
// others.
func withoutKnownWarnings(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := warning.WithWarningRecorder(r.Context(), recorder{r.Context()})
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// recorder passes warnings on to the recorder of a request.
type recorder struct{ request context.Context }

// AddWarning implements warning.Recorder.
func (r recorder) AddWarning(agent, text string) {
	if name, ok := strings.CutPrefix(text, "metadata.finalizers: "); ok {
		name, _, _ = strings.Cut(strings.TrimPrefix(name, `"`), `"`)
		if slices.Contains(upstreamFinalizers, name) {
			return
		}
	}
	warning.AddWarning(r.request, agent, text)
}
