// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// kind is a backend by its name alone.
type kind struct {
	Backend
	name string
}

func TestASpecChoosesItsBackend(t *testing.T) {
	t.Parallel()
	here := Backends{Simulated: kind{name: "simulated"}}
	const absent = "spec.simulated asks for machines that cannot run here: choose another kind, or have a manager reconcile this that runs them"
	const unasked = "spec asks for no kind of machines: set spec.simulated"
	for name, tc := range map[string]struct {
		backends  Backends
		simulated bool
		want      string
		wantErr   string
	}{
		"that is here":     {backends: here, simulated: true, want: "simulated"},
		"that is not here": {simulated: true, wantErr: absent},
		"none":             {backends: here, wantErr: unasked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cluster infrav1.LocalClusterSpec
			var machine infrav1.LocalMachineSpec
			if tc.simulated {
				cluster.Simulated, machine.Simulated = &infrav1.LocalClusterSimulated{}, &infrav1.LocalMachineSimulated{}
			}
			check := func(of string, got Backend, err error) {
				if tc.wantErr != "" {
					if err == nil || err.Error() != tc.wantErr || errors.Is(err, ErrNotChosen) == tc.simulated {
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
	if got, err := choose(choice{"one", false, one}, choice{"other", true, other}); err != nil || got != Backend(other) {
		t.Errorf("got %v, %v, want the other", got, err)
	}
	if _, err := choose(choice{"one", false, one}, choice{"other", false, other}); err == nil || err.Error() != "spec asks for no kind of machines: set spec.one or spec.other" {
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
}
