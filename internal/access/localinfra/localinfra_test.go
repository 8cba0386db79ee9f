// SPDX-License-Identifier: Apache-2.0

package localinfra

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// kind is a backend that only has a name.
type kind struct {
	Backend
	name string
}

func TestASpecChoosesItsBackend(t *testing.T) {
	t.Parallel()
	here := Backends{Simulated: kind{name: "simulated"}, Container: kind{name: "container"}}
	const absent = " asks for machines that cannot run here: "
	const elsewhere = "choose another kind, or have a manager reconcile this that runs them"
	for name, tc := range map[string]struct {
		backends             Backends
		simulated, container bool
		want                 string
		wantErr              string
	}{
		"simulated, that is here":     {backends: here, simulated: true, want: "simulated"},
		"simulated, that is not here": {simulated: true, wantErr: "spec.simulated" + absent + elsewhere},
		"container, that is here":     {backends: here, container: true, want: "container"},
		"container, that is not here": {container: true, wantErr: "spec.container" + absent + elsewhere},
		"container, and it says why":  {backends: Backends{NoContainer: "not root: become root"}, container: true, wantErr: "spec.container" + absent + "not root: become root"},
		"none":                        {backends: here, wantErr: "spec asks for no kind of machines: set spec.simulated or spec.container"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cluster infrav1.LocalClusterSpec
			var machine infrav1.LocalMachineSpec
			if tc.simulated {
				cluster.Simulated, machine.Simulated = &infrav1.LocalClusterSimulated{}, &infrav1.LocalMachineSimulated{}
			}
			if tc.container {
				cluster.Container, machine.Container = &infrav1.LocalClusterContainer{}, &infrav1.LocalMachineContainer{}
			}
			check := func(of string, got Backend, err error) {
				if tc.wantErr != "" {
					if err == nil || err.Error() != tc.wantErr || errors.Is(err, ErrNotChosen) == (tc.simulated || tc.container) {
						t.Errorf("%s: got error %v, want %s", of, err, tc.wantErr)
					}
					return
				}
				if err != nil || got.(kind).name != tc.want {
					t.Errorf("%s: got %v, %v, want %s", of, got, err, tc.want)
				}
			}
			got, err := tc.backends.OfCluster(cluster)
			check("LocalCluster", got, err)
			got, err = tc.backends.OfMachine(machine)
			check("LocalMachine", got, err)
		})
	}
}

func TestTheChoiceIsBetweenAllKinds(t *testing.T) {
	t.Parallel()
	one, other := kind{name: "one"}, kind{name: "other"}
	if got, err := choose(choice{field: "one", backend: one}, choice{field: "other", asked: true, backend: other}); err != nil || got != Backend(other) {
		t.Errorf("got %v, %v, want the other", got, err)
	}
	if _, err := choose(choice{field: "one", backend: one}, choice{field: "other", backend: other}); err == nil || err.Error() != "spec asks for no kind of machines: set spec.one or spec.other" {
		t.Errorf("got %v, want both named", err)
	}
}

func TestAllAreThoseThatAreHere(t *testing.T) {
	t.Parallel()
	if got := (Backends{}).All(); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
	if got := (Backends{Simulated: kind{}}).All(); len(got) != 1 {
		t.Errorf("of one: %v", got)
	}
	if got := (Backends{Simulated: kind{}, Container: kind{}}).All(); len(got) != 2 {
		t.Errorf("of two: %v", got)
	}
}

// TestInfrastructureIsFoundAfterMove: a LocalCluster that is moved has another UID, and
// its recorded identity still names its infrastructure.
func TestInfrastructureIsFoundAfterMove(t *testing.T) {
	t.Parallel()
	c := &infrav1.LocalCluster{ObjectMeta: metav1.ObjectMeta{UID: "before"}}
	if got := ClusterID(c); got != "before" {
		t.Errorf("without an identity: %s", got)
	}
	c.Spec.Identity = string(ClusterID(c))
	c.UID = "after"
	if got := ClusterID(c); got != "before" {
		t.Errorf("after a move: %s", got)
	}
	if got := MachineID(&infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{UID: "m"}}); got != "m" {
		t.Errorf("of a machine: %s", got)
	}
}

func TestMachineIsUpAfterBooting(t *testing.T) {
	t.Parallel()
	for stage, want := range map[Stage]bool{Booting: false, Bootstrapping: true, Done: true, Failed: true} {
		if got := (MachineStatus{Stage: stage}).Up(); got != want {
			t.Errorf("%s: up %t, want %t", stage, got, want)
		}
	}
	held := error(&HeldError{Holder: "plane b"})
	if as, ok := errors.AsType[*HeldError](held); !ok || as.Holder != "plane b" || held.Error() != "its infrastructure is held by plane b" {
		t.Errorf("%v", held)
	}
}
