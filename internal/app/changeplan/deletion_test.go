// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
)

// deletion deletes an object.
func deletion(kind, name string) changeplan.Write {
	w := set(kind, name, nil, "spec")
	w.Delete, w.Patch = true, ""
	return w
}

// machineOf returns the name of a Machine of Cluster plain.
func machineOf(t *testing.T, m mgmt, controlPlane bool) string {
	t.Helper()
	var all clusterv1.MachineList
	if err := m.List(t.Context(), &all, client.MatchingLabels{clusterv1.ClusterNameLabel: "plain"}); err != nil {
		t.Fatal(err)
	}
	for _, machine := range all.Items {
		if _, is := machine.Labels[clusterv1.MachineControlPlaneLabel]; is == controlPlane {
			return machine.Name
		}
	}
	t.Fatal("Cluster plain has no such Machine")
	return ""
}

// TestPlanOfADeletion deletes objects of a Cluster with one control plane machine and
// one worker.
func TestPlanOfADeletion(t *testing.T) {
	t.Parallel()
	m := serve(t)
	sets := &clusterv1.MachineSetList{}
	if err := m.List(t.Context(), sets, client.MatchingLabels{clusterv1.ClusterNameLabel: "plain"}); err != nil || len(sets.Items) != 1 {
		t.Fatalf("MachineSets %d, error %v", len(sets.Items), err)
	}
	for name, tc := range map[string]struct {
		change changeplan.Write
		want   planv1.Summary
		waves  []bool // of control plane machines, in the order of the deletions
		gone   string // objects that are deleted too
	}{
		"a Cluster":           {deletion("Cluster", "plain"), planv1.Summary{Deleted: 2}, []bool{false, true}, "KubeadmControlPlane MachineDeployment MachineSet LocalCluster"},
		"a MachineDeployment": {deletion("MachineDeployment", "plain-workers"), planv1.Summary{Kept: 1, Deleted: 1}, []bool{false}, "MachineSet"},
		"a MachineSet":        {deletion("MachineSet", sets.Items[0].Name), planv1.Summary{Kept: 1, Replaced: 1}, []bool{false}, ""},
		"a worker":            {deletion("Machine", machineOf(t, m, false)), planv1.Summary{Kept: 1, Replaced: 1}, []bool{false}, "LocalMachine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(t, m, changeplan.Options{}, tc.change)
			if p.Summary != tc.want || len(p.Clusters) != 1 || p.Change[0].Action != planv1.Deleted {
				t.Fatalf("the plan:\n%s", text(t, p))
			}
			c := p.Clusters[0]
			waves := map[int]planv1.Machine{}
			for _, machine := range c.Machines {
				if machine.Wave > 0 {
					waves[machine.Wave] = machine
				}
			}
			for i, controlPlane := range tc.waves {
				if machine := waves[i+1]; strings.HasPrefix(machine.Owner, "KubeadmControlPlane ") != controlPlane || machine.Name == "" {
					t.Errorf("wave %d is Machine %q of %s", i+1, machine.Name, machine.Owner)
				}
			}
			deleted := map[string]bool{}
			for _, obj := range c.Objects {
				deleted[obj.Kind] = deleted[obj.Kind] || obj.Action == planv1.Deleted
			}
			for _, kind := range strings.Fields(tc.gone) {
				if !deleted[kind] {
					t.Errorf("no %s is deleted:\n%s", kind, text(t, p))
				}
			}
			if len(c.Blocked) > 0 {
				t.Errorf("blocked: %v", c.Blocked)
			}
		})
	}
}

// TestPlanOfADeletionIsADryRun has a management cluster that refuses deletions, and one
// in which the object does not exist. Nothing is deleted.
func TestPlanOfADeletionIsADryRun(t *testing.T) {
	t.Parallel()
	m := serve(t)
	var asked []string
	m.Client = interceptor.NewClient(m.world.Mgmt, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		if o := (&client.DeleteOptions{}).ApplyOptions(opts); len(o.DryRun) == 0 {
			t.Errorf("%s is deleted", obj.GetName())
		}
		asked = append(asked, obj.GetName())
		return errors.New("not allowed")
	}})
	for name, want := range map[string]string{"plain": "refuses the deletion of Cluster default/plain: not allowed", "none": "Cluster default/none: it does not exist"} {
		if p, err := changeplan.Make(t.Context(), changeplan.Options{Mgmt: m, Now: now}, []changeplan.Write{deletion("Cluster", name)}); p != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: plan %v, error %v", name, p, err)
		}
	}
	if len(asked) != 1 || asked[0] != "plain" {
		t.Errorf("asked for %q", asked)
	}
}

// TestSavedDeletionIsReadAsOne checks that a deletion is not carried out as a write of an
// object without fields.
func TestSavedDeletionIsReadAsOne(t *testing.T) {
	t.Parallel()
	m := serve(t)
	deleting := mgmt{world: m.world, Client: interceptor.NewClient(m.world.Mgmt, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if len((&client.DeleteOptions{}).ApplyOptions(opts).DryRun) == 0 {
				t.Errorf("%s is deleted", obj.GetName())
			}
			return nil
		},
	})}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	if err := m.world.Put(system); err != nil {
		t.Fatal(err)
	}
	s := save(t, deleting, deletion("MachineDeployment", "plain-workers"))
	all, err := changeplan.Writes(s)
	if err != nil || len(all) != 1 || !all[0].Delete || all[0].Object.GetName() != "plain-workers" || s.Plan.Summary.Deleted == 0 {
		t.Errorf("%+v, %+v, %v", all, s.Plan.Summary, err)
	}
}
