// SPDX-License-Identifier: Apache-2.0

package machinetemplate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

const manager = "us"

// some returns a template that uses every field.
func some(change ...func(*Template)) Template {
	t := Template{
		Maker:       metav1.OwnerReference{APIVersion: "x.io/v1", Kind: "Maker", Name: "mk", UID: "uid"},
		Namespace:   "ns",
		Labels:      map[string]string{"app": "x"},
		Annotations: map[string]string{"note": "1"},
		Own:         map[string]string{"hook": ""},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c", Version: "v1.36.0", FailureDomain: "a",
			ReadinessGates: []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}},
			Taints:         []clusterv1.MachineTaint{{Key: "t", Propagation: clusterv1.MachineTaintPropagationAlways}},
		},
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

// signed notes that the manager has put labels and annotations there.
func signed(m *clusterv1.Machine, fields string) *clusterv1.Machine {
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":` + fields + `}`)}}}
	return m
}

func TestANewMachineHasAllFromTheBeginning(t *testing.T) {
	t.Parallel()
	from := some()
	want := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "m",
			Labels:      map[string]string{"app": "x"},
			Annotations: map[string]string{"note": "1", "hook": ""},
			Finalizers:  []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "x.io/v1", Kind: "Maker", Name: "mk", UID: "uid", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: from.Spec,
	}
	want.Spec.Deletion.NodeDeletionTimeoutSeconds = new(int32(10))
	got := from.Machine("m")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Machine (-want +got):\n%s", diff)
	}
	if !from.InStep(got) {
		t.Error("it is not in step from the beginning")
	}
	got.Labels["app"], got.Spec.Taints[0].Key = "y", "u"
	if diff := cmp.Diff(some(), from); diff != "" {
		t.Errorf("a change to it changed the template (-want +got):\n%s", diff)
	}
}

func TestWhatIsMadeForAMachineBelongsToTheMaker(t *testing.T) {
	t.Parallel()
	got := &metav1.ObjectMeta{}
	some().Dress(got, "m")
	want := &metav1.ObjectMeta{
		Namespace: "ns", Name: "m", Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"note": "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "x.io/v1", Kind: "Maker", Name: "mk", UID: "uid"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	machine := func(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
		m := signed(some().Machine("m"), `{"f:labels":{"f:app":{}},"f:annotations":{"f:note":{},"f:hook":{}}}`)
		for _, f := range change {
			f(m)
		}
		return m
	}
	going := func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }
	tests := map[string]struct {
		machine  *clusterv1.Machine
		template Template
		want     *clusterv1.Machine
		same     bool // the very same Machine, untouched
	}{
		"a Machine as it was made needs nothing": {machine(), some(), machine(), true},
		"zero seconds are the same as none":      {machine(), some(func(t *Template) { t.Spec.MinReadySeconds = new(int32(0)) }), machine(), true},
		"labels and annotations come and go": {
			machine(),
			some(func(t *Template) {
				t.Labels, t.Annotations, t.Own = map[string]string{"team": "red"}, nil, map[string]string{"other": ""}
			}),
			machine(func(m *clusterv1.Machine) {
				m.Labels, m.Annotations = map[string]string{"team": "red"}, map[string]string{"other": ""}
			}), false,
		},
		"those of others stay": {
			machine(func(m *clusterv1.Machine) { m.Labels["theirs"], m.Annotations["theirs"] = "x", "y" }), some(),
			machine(func(m *clusterv1.Machine) { m.Labels["theirs"], m.Annotations["theirs"] = "x", "y" }), false,
		},
		"an own annotation wins": {
			machine(), some(func(t *Template) { t.Annotations["hook"] = "theirs" }), machine(), true,
		},
		"fields follow": {
			machine(),
			some(func(t *Template) {
				t.Spec.MinReadySeconds, t.Spec.Taints, t.Spec.ReadinessGates = new(int32(7)), nil, nil
				t.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
			}),
			machine(func(m *clusterv1.Machine) {
				m.Spec.MinReadySeconds, m.Spec.Taints, m.Spec.ReadinessGates = new(int32(7)), nil, nil
				m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
			}), false,
		},
		"what cannot change in place does not": {
			machine(), some(func(t *Template) { t.Spec.Version, t.Spec.FailureDomain = "v1.99.0", "b" }), machine(), true,
		},
		"nor do the references of the template": {
			machine(func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Name = "m" }), some(func(t *Template) {
				t.Spec.MinReadySeconds, t.Spec.InfrastructureRef.Name = new(int32(1)), "template"
			}),
			machine(func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Name, m.Spec.MinReadySeconds = "m", new(int32(1)) }), false,
		},
		"of a Machine that goes only the timeouts follow": {
			machine(going),
			some(func(t *Template) {
				t.Labels, t.Spec.Taints, t.Spec.Deletion.NodeDrainTimeoutSeconds = nil, nil, new(int32(5))
			}),
			machine(going, func(m *clusterv1.Machine) { m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(5)) }), false,
		},
		"and nothing else makes it differ": {machine(going), some(func(t *Template) { t.Labels = nil }), machine(going), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.machine.DeepCopy()
			got, err := tc.template.Follow(tc.machine, manager)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Machine (-want +got):\n%s", diff)
			}
			if (got == tc.machine) != tc.same {
				t.Errorf("the very same Machine: %v, want %v", got == tc.machine, tc.same)
			}
			if diff := cmp.Diff(before, tc.machine); diff != "" {
				t.Errorf("the Machine itself has changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFollowReportsUnreadableRecord(t *testing.T) {
	t.Parallel()
	m := signed(some().Machine("m"), `{`)
	m.Labels["app"] = "y"
	if _, err := some().Follow(m, manager); err == nil {
		t.Error("no error")
	}
}

func TestPassBringsOnWhatTheMachineGetsAndLoses(t *testing.T) {
	t.Parallel()
	from := signed(some().Machine("m"), `{"f:labels":{"f:app":{}},"f:annotations":{"f:note":{},"f:hook":{}}}`)
	t2 := some(func(t *Template) {
		t.Labels, t.Annotations = map[string]string{"team": "red"}, map[string]string{"why": "2"}
	})
	to, err := t2.Follow(from, manager)
	if err != nil {
		t.Fatal(err)
	}
	if !Relabelled(from, to) || Relabelled(from, from.DeepCopy()) {
		t.Error("a Machine that has got labels is not told from one that has not")
	}
	obj := &metav1.ObjectMeta{Labels: map[string]string{"app": "x", "theirs": "l"}, Annotations: map[string]string{"note": "1", "theirs": "a"}}
	t2.Pass(obj, from, to)
	want := &metav1.ObjectMeta{Labels: map[string]string{"team": "red", "theirs": "l"}, Annotations: map[string]string{"why": "2", "theirs": "a"}}
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

// TestPassDoesNotForgeTheOrigin shows that a user cannot, by annotations of the
// template, make infrastructure look as if it were from another template, and so
// have every machine replaced.
func TestPassDoesNotForgeTheOrigin(t *testing.T) {
	t.Parallel()
	const origin = clusterv1.TemplateClonedFromNameAnnotation
	forged := some(func(t *Template) { t.Annotations[origin] = "other" })
	for name, tc := range map[string]struct{ before, after Template }{
		"when the template names one":           {some(), forged},
		"when the template no longer names one": {forged, some()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := signed(tc.before.Machine("m"), `{"f:annotations":{"f:`+origin+`":{}}}`)
			to, err := tc.after.Follow(from, manager)
			if err != nil {
				t.Fatal(err)
			}
			if !Relabelled(from, to) {
				t.Fatal("the Machine itself does not follow")
			}
			obj := &metav1.ObjectMeta{Annotations: map[string]string{origin: "mine"}}
			tc.after.Pass(obj, from, to)
			if got := obj.Annotations[origin]; got != "mine" {
				t.Errorf("made from %q, want mine", got)
			}
		})
	}
}

// TestTemplateBombsEnd: what was stored before admission refused it is refused here.
func TestTemplateBombsEnd(t *testing.T) {
	t.Parallel()
	for name, bomb := range builder.TemplateBombs() {
		if got, err := (Naming{Template: bomb + "{{ .random }}", As: "machineSet"}).Name("abcde"); err == nil || !strings.Contains(err.Error(), "spec.machineNaming.template: ") {
			t.Errorf("%s: got %.100q, %v, want it refused", name, got, err)
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	tests := map[string]struct {
		n             Naming
		want, wantErr string
	}{
		"the usual form":                   {n: Naming{Maker: "md-1"}, want: "md-1-abcde"},
		"a long set keeps the random part": {n: Naming{Maker: long}, want: long[:58] + "abcde"},
		"a template":                       {n: Naming{Template: "{{ .cluster.name }}-{{ .random }}", Cluster: "c"}, want: "c-abcde"},
		"a long template is cut at 63":     {n: Naming{Template: "{{ .random }}-" + long}, want: "abcde-" + long[:57]},
		"a template with the maker":        {n: Naming{Template: "{{ .pool.name }}-{{ .random }}", As: "pool", Maker: "p"}, want: "p-abcde"},
		"functions in pipes":               {n: Naming{Template: "{{ .cluster.name | lower | trunc 4 }}-{{ .random }}", Cluster: "Production"}, want: "prod-abcde"},
		"an unknown field":                 {n: Naming{Template: "{{ .other }}"}, wantErr: "fill spec.machineNaming.template"},
		"no template at all":               {n: Naming{Template: "{{"}, wantErr: "read spec.machineNaming.template"},
		"a name that is none":              {n: Naming{Template: "A_{{ .random }}"}, wantErr: `makes the name "A_abcde"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.n.Name("abcde")
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("got error %v, want %q", err, tc.wantErr)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
