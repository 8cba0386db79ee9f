// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// TestAnOldClientLooksOn reads the statuses of a cluster at v1beta1 when it has
// become ready, when it has been upgraded, and while a hook holds its deletion.
func TestAnOldClientLooksOn(t *testing.T) {
	t.Parallel()
	const hook = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/inventory"
	w := New(t)
	old, err := webhooks.NewConverter(func(kind schema.GroupKind) (string, error) { return kind.Group + "/v1beta1", nil })
	w.must(err)
	create(t, w, "demo", 1, 2)
	asOld(w, old)
	w.Record("# upgrade to v1.36.4")
	edit(t, w, "demo-control-plane", &controlplanev1.KubeadmControlPlane{}, func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Version = "v1.36.4" })
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "and its workers", func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.Version = "v1.36.4" })
	asOld(w, old)
	worker := w.objects("Machine")[len(w.objects("Machine"))-1].GetName()
	change(t, w, worker, &clusterv1.Machine{}, "hold "+worker+" by a hook", func(m *clusterv1.Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, hook, "")
	})
	w.Record("# delete")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})))
	w.Run()
	asOld(w, old)
	change(t, w, worker, &clusterv1.Machine{}, "let it go", func(m *clusterv1.Machine) { delete(m.Annotations, hook) })
	left(w)
	w.Golden("an-old-client-looks-on.txt")
}

// TestOldClientsCanBeLeftUntold turns off the status fields that are only for old
// clients.
func TestOldClientsCanBeLeftUntold(t *testing.T) {
	t.Parallel()
	w := newWith(t, func(o *Options) { o.Features.Off = []string{controllers.GateDeprecatedV1Beta1Status} })
	create(t, w, "demo", 1, 1)
	all, err := w.Objects(t.Context())
	w.must(err)
	for _, obj := range all {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		w.must(err)
		if status, _ := content["status"].(map[string]any); status["deprecated"] != nil {
			t.Errorf("%T %s: %v", obj, obj.GetName(), status["deprecated"])
		}
	}
}

// asOld writes what a client of v1beta1 reads: flags and counters, and Ready with
// the conditions that are not True.
func asOld(w *story, old *conversion.Converter) {
	w.t.Helper()
	w.Record("# read at v1beta1")
	for _, kind := range []string{"Cluster", "KubeadmControlPlane", "KubeadmConfig", "MachineDeployment", "MachineSet", "Machine"} {
		for _, obj := range w.objects(kind) {
			stored, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			w.must(err)
			gvk, err := w.Mgmt.GroupVersionKindFor(obj)
			w.must(err)
			stored["apiVersion"], stored["kind"] = gvk.GroupVersion().String(), gvk.Kind
			read, err := old.Object(stored, gvk.Group+"/v1beta1")
			w.must(err)
			status, _ := read["status"].(map[string]any)
			w.Record("%s %s:%s%s", kind, obj.GetName(), numbers(status), troubles(status))
		}
	}
}

// numbers are the fields of a status that are flags or counters.
func numbers(status map[string]any) (text string) {
	var all []string
	for name, v := range status {
		switch v.(type) {
		case bool, int64, float64:
			if name != "observedGeneration" {
				all = append(all, fmt.Sprintf(" %s %v", name, v))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func troubles(status map[string]any) (text string) {
	list, _ := status["conditions"].([]any)
	for _, c := range list {
		c := c.(map[string]any)
		if c["type"] != "Ready" && c["status"] == "True" {
			continue
		}
		text += fmt.Sprintf("\n  %s %s", c["type"], c["status"])
		for _, field := range []string{"severity", "reason", "message"} {
			if c[field] != nil {
				text += fmt.Sprintf(" %s", c[field])
			}
		}
	}
	return text
}
