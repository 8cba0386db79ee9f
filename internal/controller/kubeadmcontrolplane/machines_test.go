// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
)

// half creates the objects before a Machine, as a process does that stops then.
func (l *lab) half(name string, infrastructure bool) {
	l.Helper()
	s, err := l.observe(l.Context(), l.controlPlane())
	l.must(err)
	o := order(s, name, controlplane.Create{})
	host := &infrav1.LocalMachine{}
	o.Template.Dress(o.Bootstrap, name)
	o.Template.Dress(host, name)
	l.must(l.Mgmt.Create(l.Context(), o.Bootstrap))
	if infrastructure {
		l.must(l.Mgmt.Create(l.Context(), host))
	}
}

// made returns the names of the objects that machines consist of.
func (l *lab) made() (names []string) {
	l.Helper()
	for _, list := range []client.ObjectList{&bootstrapv1.KubeadmConfigList{}, &infrav1.LocalMachineList{}, &clusterv1.MachineList{}} {
		l.must(l.Mgmt.List(l.Context(), list))
		switch list := list.(type) {
		case *bootstrapv1.KubeadmConfigList:
			for i := range list.Items {
				names = append(names, "config "+list.Items[i].Name)
			}
		case *infrav1.LocalMachineList:
			for i := range list.Items {
				names = append(names, "host "+list.Items[i].Name)
			}
		case *clusterv1.MachineList:
			for i := range list.Items {
				names = append(names, "machine "+list.Items[i].Name)
			}
		}
	}
	return names
}

func TestWhatAnInterruptedCreationLeftIsSwept(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		replicas int32
		then     func(*lab)
		want     []string
	}{
		"before the first machine": {
			1, func(l *lab) { l.half("cp-lost", true) },
			[]string{"config cp-1", "host cp-1", "machine cp-1"},
		},
		"before a machine that joins": {
			1, func(l *lab) {
				l.settle()
				l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas, kcp.Generation = new(int32(3)), 2 })
				l.half("cp-lost", false)
			},
			[]string{"config cp-1", "config cp-2", "config cp-3", "host cp-1", "host cp-2", "host cp-3", "machine cp-1", "machine cp-2", "machine cp-3"},
		},
		"when no other machine is wanted any more": {
			1, func(l *lab) {
				l.settle()
				l.half("cp-lost", true)
				l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Generation = 2 })
			},
			[]string{"config cp-1", "host cp-1", "machine cp-1"},
		},
		"but not what is another's": {
			1, func(l *lab) {
				l.settle()
				l.half("cp-other", true)
				config := &bootstrapv1.KubeadmConfig{}
				l.must(l.Mgmt.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: "cp-other"}, config))
				config.OwnerReferences[0].Name = "other"
				l.must(l.Mgmt.Update(l.Context(), config))
				l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Generation = 2 })
			},
			[]string{"config cp-1", "config cp-other", "host cp-1", "machine cp-1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tc.replicas)
			tc.then(l)
			l.settle()
			if diff := cmp.Diff(tc.want, l.made()); diff != "" {
				t.Errorf("objects (-want +got)\n%s", diff)
			}
		})
	}
}

// TestEventsOfRefusedWritesNameTheCause, which no condition does.
func TestEventsOfRefusedWritesNameTheCause(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	l.settle()
	refused := func(obj client.Object) error {
		if _, is := obj.(*clusterv1.Machine); is {
			return errors.New("ValidatingAdmissionPolicy guard denied the request")
		}
		return nil
	}
	for name, tc := range map[string]struct {
		replicas       int32
		refuse, reject func(client.Object) error
		want           string
	}{
		"creation": {5, refused, nil, "have 3, want 5: "}, "deletion": {1, nil, refused, "have 3, want 1: "},
	} {
		l.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = &tc.replicas })
		l.said, l.refuse, l.reject = nil, tc.refuse, tc.reject
		if _, err := l.once(); err == nil {
			t.Errorf("%s was not refused", name)
		}
		l.refuse, l.reject = nil, nil
		if !slices.ContainsFunc(l.said, func(note string) bool {
			return strings.Contains(note, tc.want) && strings.Contains(note, "guard denied the request")
		}) {
			t.Errorf("%s: events %q", name, l.said)
		}
	}
}

func TestLabelsWaitForAKindThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.settle()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	l.must(l.Mgmt.Get(t.Context(), client.ObjectKey{Name: "localmachines." + infrav1.GroupVersion().Group}, crd))
	labels := crd.Labels
	crd.Labels = nil
	l.must(l.Mgmt.Update(t.Context(), crd))
	l.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"new": "y"}
		kcp.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(7))
	})
	again, err := l.once()
	l.must(err)
	if m := l.machines()[0]; m.Labels["new"] != "" || *m.Spec.Deletion.NodeDrainTimeoutSeconds != 7 {
		t.Errorf("labels %v, spec %+v: want no new label yet, and the timeout", m.Labels, m.Spec)
	}
	if again.RequeueAfter != repairInterval {
		t.Errorf("requeues after %s, want %s", again.RequeueAfter, repairInterval)
	}
	crd.Labels = labels
	l.must(l.Mgmt.Update(t.Context(), crd))
	l.settle()
	host := &infrav1.LocalMachine{}
	l.must(l.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(l.machines()[0]), host))
	if m := l.machines()[0]; m.Labels["new"] != "y" || host.Labels["new"] != "y" {
		t.Errorf("labels of the Machine %v, of its host %v; want the new one on both", m.Labels, host.Labels)
	}
}
