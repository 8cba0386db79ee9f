// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/extension/mutation"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/pure/planguard"
)

// updater is an extension that can update the version of Machines in place.
type updater struct{}

// Post implements extensions.Poster.
func (updater) Post(ctx context.Context, _ transport.Endpoint, _ string, body []byte) ([]byte, error) {
	can := mutation.InPlace{Machine: []string{"version"}}
	var of metav1.TypeMeta
	err := json.Unmarshal(body, &of)
	var answer any
	switch of.Kind {
	case "CanUpdateMachineSetRequest":
		req, resp := &hooksv1.CanUpdateMachineSetRequest{}, &hooksv1.CanUpdateMachineSetResponse{}
		err = errors.Join(err, json.Unmarshal(body, req), can.CanUpdateMachineSet(ctx, req, resp))
		resp.TypeMeta, resp.Status, answer = metav1.TypeMeta{APIVersion: of.APIVersion, Kind: "CanUpdateMachineSetResponse"}, hooksv1.ResponseStatusSuccess, resp
	default:
		err = errors.Join(err, errors.New("unexpected "+of.Kind))
	}
	data, failed := json.Marshal(answer)
	return data, errors.Join(err, failed)
}

// Probe implements extensions.Poster.
func (u updater) Probe(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	return u.Post(ctx, e, path, body)
}

// Forget implements extensions.Poster.
func (updater) Forget(transport.Endpoint) {}

// deployment is a change of the spec of the MachineDeployment of Cluster plain.
func deployment(t *testing.T, spec string) changeplan.Write {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	return set("MachineDeployment", "plain-workers", fields, "spec")
}

// TestPlanOfAnUpdateInPlaceCountsItsMachineAsUnavailable has an extension that updates the
// one worker, which is not available meanwhile.
func TestPlanOfAnUpdateInPlaceCountsItsMachineAsUnavailable(t *testing.T) {
	t.Parallel()
	m := serve(t)
	discovered(t, m, "https://extension.invalid", "CanUpdateMachineSet", "UpdateMachine")
	p := plan(t, m, changeplan.Options{Extensions: updater{}}, deployment(t, `{"template": {"spec": {"version": "v1.35.1"}},
		"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}`))
	c := p.Clusters[0]
	i := slices.IndexFunc(c.Groups, func(g planv1.Group) bool { return g.Owner == "MachineDeployment plain-workers" })
	if p.Summary != (planv1.Summary{Kept: 1, Changed: 1}) || i < 0 || c.Groups[i].AvailableBefore != 1 || c.Groups[i].FewestAvailable != 0 || c.Takes.Duration < 10*time.Second {
		t.Errorf("the plan:\n%s", text(t, p))
	}
	if len(c.Hooks) != 1 || c.Hooks[0].Hook != "UpdateMachine" {
		t.Errorf("hooks %v, want one call for the Machine", c.Hooks)
	}
	if !slices.ContainsFunc(p.Assumptions, func(text string) bool {
		return strings.HasPrefix(text, "An update of a Machine in place is assumed to take 10s")
	}) {
		t.Errorf("assumptions %q", p.Assumptions)
	}
}

// booted gives Machines a time to boot.
func booted(after time.Duration) func(client.Object) {
	return func(obj client.Object) {
		m, is := obj.(*clusterv1.Machine)
		if !is {
			return
		}
		for i := range m.Status.Conditions {
			if c := &m.Status.Conditions[i]; c.Type == clusterv1.MachineInfrastructureReadyCondition {
				c.LastTransitionTime = metav1.NewTime(m.CreationTimestamp.Add(after))
			}
		}
	}
}

// TestPlanWaitsForMachinesThatBootSlowly replaces machines that take longer to boot than a
// plan waits for a change.
func TestPlanWaitsForMachinesThatBootSlowly(t *testing.T) {
	t.Parallel()
	m := serve(t, booted(40*time.Minute))
	p := plan(t, m, changeplan.Options{}, deployment(t, `{"template": {"spec": {"version": "v1.35.1"}}}`))
	if p.Summary != (planv1.Summary{Kept: 1, Replaced: 1}) || len(p.Clusters[0].Blocked) > 0 || p.Clusters[0].Takes.Duration < 40*time.Minute {
		t.Errorf("the plan:\n%s", text(t, p))
	}
}

// TestPlanOfAWriteThatWaits upgrades the control plane, and deletes the worker when that is
// done.
func TestPlanOfAWriteThatWaits(t *testing.T) {
	t.Parallel()
	m := serve(t, booted(5*time.Minute))
	workers := shrink()
	workers.Waits = true
	p := plan(t, m, changeplan.Options{}, set("KubeadmControlPlane", "plain-control-plane", "v1.35.1", "spec", "version"), workers)
	waves := map[bool]*metav1.Duration{}
	for _, machine := range p.Clusters[0].Machines {
		waves[strings.HasPrefix(machine.Owner, "KubeadmControlPlane ")] = machine.After
	}
	if p.Summary != (planv1.Summary{Replaced: 1, Deleted: 1}) || waves[true].Duration < 5*time.Minute || waves[false].Duration < waves[true].Duration {
		t.Errorf("the plan:\n%s", text(t, p))
	}
}

// TestPlanOfAPauseIsReached pauses a Cluster together with an upgrade, and ends the pause of
// another that has nothing to do: the Machines are as both plans leave them.
func TestPlanOfAPauseIsReached(t *testing.T) {
	t.Parallel()
	pause := func(paused bool) changeplan.Write { return set("Cluster", "plain", paused, "spec", "paused") }
	paused := rested(t, stored(t, serve(t, func(obj client.Object) {
		if c, is := obj.(*clusterv1.Cluster); is && c.Name == "plain" {
			c.Spec.Paused = new(true)
		}
	})))
	for name, tc := range map[string]struct {
		m      mgmt
		change []changeplan.Write
	}{
		"the beginning": {serve(t), []changeplan.Write{pause(true), deployment(t, `{"template": {"spec": {"version": "v1.35.1"}}}`)}},
		"the end":       {served(t, paused), []changeplan.Write{pause(false)}},
	} {
		p := plan(t, tc.m, changeplan.Options{}, tc.change...)
		if p.Summary != (planv1.Summary{Kept: 2}) {
			t.Errorf("%s: the plan:\n%s", name, text(t, p))
			continue
		}
		var machines []*clusterv1.Machine
		for _, obj := range stored(t, tc.m) {
			if m, is := obj.(*clusterv1.Machine); is && m.Spec.ClusterName == "plain" {
				machines = append(machines, m)
			}
		}
		if g := (&planv1.PlanGuard{Spec: planv1.PlanGuardSpec{Cluster: &p.Clusters[0]}}); len(machines) != 2 || !planguard.Reached(g, machines) {
			t.Errorf("%s: %d Machines, which are not as the plan leaves them:\n%s", name, len(machines), text(t, p))
		}
	}
}

// stored are all objects of a management cluster.
func stored(t *testing.T, m mgmt) []client.Object {
	t.Helper()
	all, err := m.world.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPlanOfTooManyReplicasEnds mistypes a number of replicas: the plan ends with a reason.
func TestPlanOfTooManyReplicasEnds(t *testing.T) {
	t.Parallel()
	many := int64(2147483647)
	for name, tc := range map[string]struct {
		m      mgmt
		change changeplan.Write
		want   string
	}{
		"MachineDeployment": {serve(t), set("MachineDeployment", "plain-workers", many, "spec", "replicas"), "a plan has at most 6000 Machines: correct the number of replicas, which are at least 21474"},
		"MachinePool":       {servePool(t, true), set("MachinePool", "fleet-pool", many, "spec", "replicas"), "a plan has at most 6000 Machines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(t, tc.m, changeplan.Options{}, tc.change)
			if why := p.Clusters[0].NotPredicted; why == nil || why.Reason != planv1.Failed || !strings.Contains(why.Message, tc.want) {
				t.Errorf("not predicted: %+v", why)
			}
		})
	}
}

// TestSummaryOfAnyAction counts the Machines of an API object, which can have any action.
func TestSummaryOfAnyAction(t *testing.T) {
	t.Parallel()
	p := &planv1.Plan{Clusters: []planv1.Cluster{{Machines: []planv1.Machine{{Action: "Vanished"}, {Action: planv1.Deleted}}}}}
	if changeplan.Summarize(p); p.Summary != (planv1.Summary{Deleted: 1, NotPredicted: 1}) {
		t.Errorf("%+v", p.Summary)
	}
}
