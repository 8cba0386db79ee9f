// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/apply"
)

const applied = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {namespace: default, name: md, labels: {a: "1"}}
spec:
  clusterName: c
  replicas: 1
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      clusterName: c
      version: v1.36.3
      readinessGates: [{conditionType: A}]
      bootstrap: {configRef: {apiGroup: example.com, kind: ConfigTemplate, name: x}}
      infrastructureRef: {apiGroup: example.com, kind: HostTemplate, name: x}
`

// TestAStoreAppliesAsAServerDoes writes by the writer that a topology uses, which
// compares with managedFields before it sends anything.
func TestAStoreAppliesAsAServerDoes(t *testing.T) {
	t.Parallel()
	s, err := newStore(Options{Clock: NewClock(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	w := &apply.Writer{Mgmt: s, Live: s, Schemas: apply.NewSchemas(s, s), Manager: "capi-topology", Clock: clock.RealClock{}}
	wanted := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(applied), wanted); err != nil {
		t.Fatal(err)
	}
	live := func() *unstructured.Unstructured {
		t.Helper()
		obj := wanted.DeepCopy()
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(wanted), obj); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	writes := func(did apply.Did, live *unstructured.Unstructured) *unstructured.Unstructured {
		t.Helper()
		out, err := w.Write(t.Context(), wanted, live, &apply.Memory{})
		if err != nil || out.Did != did {
			t.Fatalf("did %q because of %q, %v; want %q", out.Did, out.Reason, err, did)
		}
		return out.Object
	}
	made := writes(apply.Created, nil)
	if made.GetUID() == "" || made.GetResourceVersion() == "" || made.GetGeneration() != 1 || made.Object["metadata"].(map[string]any)["creationTimestamp"] == nil {
		t.Errorf("made: %v", made.Object["metadata"])
	}
	writes(apply.Nothing, live())
	if _, err := w.Write(t.Context(), wanted, nil, &apply.Memory{}); !apierrors.IsConflict(err) {
		t.Errorf("created again: %v, want a conflict", err)
	}
	other := live()
	other.SetUID("other")
	other.SetLabels(nil)
	if _, err := w.Write(t.Context(), wanted, other, &apply.Memory{}); !apierrors.IsConflict(err) {
		t.Errorf("applied to another object of that name: %v, want a conflict", err)
	}

	md := &clusterv1.MachineDeployment{}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(wanted), md); err != nil {
		t.Fatal(err)
	}
	before := md.DeepCopy()
	md.Labels["theirs"] = "1"
	md.Spec.Template.Spec.ReadinessGates = append(md.Spec.Template.Spec.ReadinessGates, clusterv1.MachineReadinessGate{ConditionType: "Theirs"})
	if err := s.Patch(t.Context(), md, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	before = md.DeepCopy()
	md.Status.Phase = "Running"
	if err := s.Status().Patch(t.Context(), md, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	writes(apply.Nothing, live())
	version, generation := live().GetResourceVersion(), live().GetGeneration()

	wanted.SetLabels(nil)
	if err := unstructured.SetNestedField(wanted.Object, int64(3), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	after := writes(apply.Applied, live())
	if after.GetResourceVersion() == version || after.GetGeneration() != generation+1 || after.GetUID() != made.GetUID() {
		t.Errorf("version %s, generation %d, uid %s", after.GetResourceVersion(), after.GetGeneration(), after.GetUID())
	}
	if l := after.GetLabels(); len(l) != 1 || l["theirs"] != "1" {
		t.Errorf("labels %v, want those of others alone", l)
	}
	if gates, _, _ := unstructured.NestedSlice(after.Object, "spec", "template", "spec", "readinessGates"); len(gates) != 2 {
		t.Errorf("readiness gates %v, want ours and theirs", gates)
	}
	writes(apply.Nothing, live())
}
