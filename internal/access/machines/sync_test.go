// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// made returns a place with a Machine.
func made(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	_, err := p.Make(t.Context(), order())
	p.must(err)
	p.writes = nil
	return p
}

// next returns the template after a change of all fields that change in place.
func next() machinetemplate.Template {
	t := template()
	t.Labels["team"], t.Annotations = "red", map[string]string{"why": "2"}
	t.Spec.MinReadySeconds = new(int32(7))
	return t
}

// has returns in one word which state an object has.
func has(obj metav1.Object) string {
	_, old := obj.GetAnnotations()["note"]
	_, young := obj.GetAnnotations()["why"]
	switch team := obj.GetLabels()["team"]; {
	case team == "red" && young && !old:
		return "new"
	case team == "blue" && old && !young:
		return "old"
	}
	return "mixed"
}

// state returns the states of all three: bootstrap, infrastructure, Machine.
func (p *place) state() []string {
	return []string{has(p.thing("Boot")), has(p.thing("Host")), has(p.machine())}
}

func (p *place) wantState(want ...string) {
	p.Helper()
	if diff := cmp.Diff(want, p.state()); diff != "" {
		p.Errorf("bootstrap, infrastructure, Machine (-want +got):\n%s", diff)
	}
}

func TestSyncWritesTheMachineLastAndThenNothing(t *testing.T) {
	t.Parallel()
	p := made(t)
	p.must(p.Sync(t.Context(), p.machine(), template()))
	p.wrote()
	p.must(p.Sync(t.Context(), p.machine(), next()))
	p.wrote("patch Boot", "patch Host", "patch Machine")
	p.wantState("new", "new", "new")
	if _, still := p.machine().Annotations["hook"]; !still {
		t.Error("the Machine's own annotation has gone")
	}
	p.must(p.Sync(t.Context(), p.machine(), next()))
	p.wrote()
}

func TestSyncReadsOnlyMachineForItsFields(t *testing.T) {
	t.Parallel()
	p := made(t)
	want := template()
	want.Spec.MinReadySeconds = new(int32(7))
	p.must(p.Sync(t.Context(), p.machine(), want))
	p.wrote("patch Machine")
}

func TestSyncBringsOnLaterWhatCouldNotBeBroughtOn(t *testing.T) {
	t.Parallel()
	quota := errors.New("quota")
	tests := map[string]struct {
		fail   string
		writes []string
		state  []string
	}{
		"to the bootstrap config": {"patch Boot", []string{"patch Boot", "patch Machine"}, []string{"old", "old", "old"}},
		"to the infrastructure":   {"patch Host", []string{"patch Boot", "patch Host", "patch Machine"}, []string{"new", "old", "old"}},
		"to the Machine":          {"patch Machine", []string{"patch Boot", "patch Host", "patch Machine"}, []string{"new", "new", "old"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := made(t)
			p.fail[tc.fail] = quota
			if err := p.Sync(t.Context(), p.machine(), next()); !errors.Is(err, quota) {
				t.Errorf("error %v, want %v", err, quota)
			}
			p.wrote(tc.writes...)
			p.wantState(tc.state...)
			if got := p.machine().Spec.MinReadySeconds; tc.fail != "patch Machine" && (got == nil || *got != 7) {
				t.Errorf("minReadySeconds %v: it concerns the Machine alone, and need not wait", got)
			}
			clear(p.fail)
			p.must(p.Sync(t.Context(), p.machine(), next()))
			p.wantState("new", "new", "new")
		})
	}
}

func TestSyncWaitsForAKindThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	p := made(t)
	broken := crd("hosts")
	p.must(p.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(broken), broken))
	broken.Labels = nil
	p.must(p.Mgmt.Update(t.Context(), broken))
	err := p.Sync(t.Context(), p.machine(), next())
	if _, is := errors.AsType[*provider.KindError](err); !is {
		t.Errorf("error %v, want that of the kind", err)
	}
	p.wantState("new", "old", "old")
	broken.Labels = crd("hosts").Labels
	p.must(p.Mgmt.Update(t.Context(), broken))
	p.must(p.Sync(t.Context(), p.machine(), next()))
	p.wantState("new", "new", "new")
}

func TestSyncPassesOverWhatIsNotTheMachines(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*place)
		writes []string
	}{
		"what does not exist": {
			func(p *place) { p.must(p.Mgmt.Delete(p.Context(), p.thing("Host"))) }, []string{"patch Boot", "patch Machine"},
		},
		"what cannot exist": {
			func(p *place) { p.must(p.Mgmt.Delete(p.Context(), crd("hosts"))) }, []string{"patch Boot", "patch Machine"},
		},
		"what another Machine has": {
			func(p *place) {
				host := p.thing("Host")
				host.SetOwnerReferences([]metav1.OwnerReference{{
					APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: "other", UID: "o", Controller: new(true),
				}})
				p.must(p.Mgmt.Update(p.Context(), host))
			}, []string{"patch Boot", "patch Machine"},
		},
		"what is being deleted": {
			func(p *place) {
				host := p.thing("Host")
				host.SetFinalizers([]string{"x.io/host"})
				p.must(p.Mgmt.Update(p.Context(), host))
				p.must(p.Mgmt.Delete(p.Context(), host))
			}, []string{"patch Boot", "patch Machine"},
		},
		"all of a Machine that is being deleted, except its timeouts": {
			func(p *place) { p.must(p.Mgmt.Delete(p.Context(), p.machine())) }, nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := made(t)
			tc.change(p)
			p.writes = nil
			p.must(p.Sync(t.Context(), p.machine(), next()))
			p.wrote(tc.writes...)
		})
	}
}

func TestPrepareLeavesTheMachineToItsCaller(t *testing.T) {
	t.Parallel()
	p := made(t)
	m := p.machine()
	p.must(p.Prepare(t.Context(), m, next()))
	p.wrote("patch Boot", "patch Host")
	if has(m) != "new" || has(p.machine()) != "old" {
		t.Errorf("in memory %s, stored %s; want new, old", has(m), has(p.machine()))
	}
	m = p.machine()
	p.fail["patch Host"] = errors.New("quota")
	change := next()
	change.Labels["team"] = "green"
	if err := p.Prepare(t.Context(), m, change); err == nil || m.Labels["team"] != "blue" {
		t.Errorf("error %v, labels %v: the Machine is ahead of what it refers to", err, m.Labels)
	}
}

// TestSyncRemovesUndesiredFieldsWithoutRecord uses a Machine as it is after
// a server could not convert its managedFields.
func TestSyncRemovesUndesiredFieldsWithoutRecord(t *testing.T) {
	t.Parallel()
	m := template().Machine("m")
	m.Labels["user"] = "label"
	p := newPlace(t, m)
	p.must(p.Sync(t.Context(), p.machine(), template()))
	p.wrote("patch Machine")
	p.must(p.Sync(t.Context(), p.machine(), template()))
	p.wrote()
	fewer := template()
	delete(fewer.Labels, "team")
	fewer.Annotations = nil
	p.must(p.Sync(t.Context(), p.machine(), fewer))
	p.wrote("patch Machine")
	got := p.machine()
	if diff := cmp.Diff(map[string]string{clusterv1.ClusterNameLabel: "c", "user": "label"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"hook": ""}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// TestACacheThatIsBehindRecordsNothing leaves the record to the next reconcile.
func TestACacheThatIsBehindRecordsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t, template().Machine("m"))
	behind := p.machine()
	behind.ResourceVersion = "1"
	p.must(p.Sync(t.Context(), behind, template()))
	p.wrote()
}
