// SPDX-License-Identifier: Apache-2.0

package changeplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/shards"
	"github.com/capstan-dev/capstan/internal/app/changeplan/standin"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
	"github.com/capstan-dev/capstan/internal/sim"
)

const (
	// settling is how long a copy runs without the change. In this time everything that
	// a Cluster repeats has happened once, such as the probes of a health check.
	settling = 10 * time.Minute
	// quiet is how long nothing changes at the end of a change.
	quiet = 15 * time.Minute
	// step is how long the time of a copy runs at most before what has failed is tried
	// again.
	step = 5 * time.Minute
	// between is how long nothing changes before a write that waits for the ones before.
	between = 10 * time.Second
	// defaultBoot is how long a machine takes to become a Node if no Machine of the
	// Cluster shows it.
	defaultBoot = time.Minute
	// debounce joins writes of status that only inform, as a manager does: they are half
	// of all.
	debounce = time.Second
	// maxObjects is the number of changed objects that are listed for a Cluster.
	maxObjects = 50
)

// copied is a copy of a part of a management cluster.
type copied struct {
	*sim.World
	outside  *standin.Outside
	start    time.Time
	observed *outcome.Observations // nil before the change
	cluster  client.ObjectKey
	change   []*written
	writes   int           // so far
	written  time.Duration // when the last was
}

var machineKind = clusterv1.GroupVersion().WithKind("Machine")

// cluster makes the plan of one Cluster.
func (m *maker) cluster(ctx context.Context, key client.ObjectKey) (planv1.Cluster, error) {
	out := planv1.Cluster{Namespace: key.Namespace, Name: key.Name}
	change := m.of(key)
	shard, err := m.reader.Read(ctx, key, m.with(key))
	if err != nil {
		return out, err
	}
	if err := m.digest(shard); err != nil {
		return out, err
	}
	for _, text := range shard.Unread {
		m.assume(key, text)
	}
	workload, why := m.workload(ctx, shard)
	if out.NotPredicted = why; why == nil {
		c, err := m.copy(ctx, shard, workload)
		if err != nil {
			return out, fmt.Errorf("copy Cluster %s: %w", key, err)
		}
		c.change = change
		if out.NotPredicted = c.settle(ctx, shard.OfOthers); out.NotPredicted == nil {
			out.NotPredicted = m.carryOut(ctx, c, &out)
		}
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if out.NotPredicted != nil {
		out = planv1.Cluster{Namespace: key.Namespace, Name: key.Name, NotPredicted: out.NotPredicted, Machines: existing(shard)}
	}
	return out, nil
}

// of returns the writes of the change, without those of other Clusters' objects.
func (m *maker) of(key client.ObjectKey) (all []*written) {
	for _, w := range m.change {
		if w.cluster == "" || w.cluster == key.Name && w.after.GetNamespace() == key.Namespace {
			all = append(all, w)
		}
	}
	return all
}

// with are the objects that the change writes for a Cluster.
func (m *maker) with(key client.ObjectKey) (all []client.Object) {
	for _, w := range m.of(key) {
		all = append(all, w.after)
	}
	return all
}

// existing are the Machines of a shard of which nothing is known.
func existing(s *shards.Shard) (all []planv1.Machine) {
	for _, obj := range s.Objects {
		if m, is := obj.(*clusterv1.Machine); is {
			all = append(all, planv1.Machine{Name: m.Name, UID: m.UID, Owner: outcome.Owner(m)})
		}
	}
	slices.SortFunc(all, func(a, b planv1.Machine) int { return strings.Compare(a.Owner+" "+a.Name, b.Owner+" "+b.Name) })
	return all
}

// copy makes the copy of a shard.
func (m *maker) copy(ctx context.Context, s *shards.Shard, workload *standin.Snapshot) (*copied, error) {
	clock := sim.NewClock(m.Now)
	reads := &sim.Reads{}
	if m.exhaustive {
		reads = nil
	}
	outside, err := standin.New(ctx, standin.Options{
		Clock: clock, Objects: s.Objects, Workloads: map[client.ObjectKey]*standin.Snapshot{s.Cluster: workload}, Boot: m.boot(s), Extensions: m.Extensions, Reads: reads,
	})
	if err != nil {
		return nil, err
	}
	c := &copied{outside: outside, start: m.Now, cluster: s.Cluster}
	o := sim.Options{Clock: clock, Objects: s.Objects, Definitions: s.Definitions, StatusDebounce: debounce}
	outside.Fill(&o)
	act := o.Act
	o.Act = func(ctx context.Context, mgmt client.Client) error {
		c.observe()
		err := act(ctx, mgmt)
		c.wrote()
		return err
	}
	c.World, err = sim.NewWorld(o)
	return c, err
}

// workload reads the workload cluster of a shard, if that is possible. One that does
// not answer does not answer the controllers either: what happens then is not known.
func (m *maker) workload(ctx context.Context, s *shards.Shard) (*standin.Snapshot, *planv1.NotPredicted) {
	secret := s.Kubeconfig()
	if m.Workload == nil || secret == nil {
		return &standin.Snapshot{}, nil
	}
	from, err := m.Workload(ctx, secret.Data[kubeconfig.DataKey])
	if errors.Is(err, ErrNoAnswer) {
		return nil, &planv1.NotPredicted{
			Reason:  planv1.WorkloadNotAnswering,
			Message: fmt.Sprintf("The API server of the workload cluster does not answer: drains and health checks depend on it. Repair it, and make the plan again: %v", err),
		}
	}
	if err != nil {
		m.assume(s.Cluster, fmt.Sprintf("The workload cluster could not be read: its Nodes are assumed to be as their Machines report, and no Pod to delay a drain: %v", err))
		return &standin.Snapshot{}, nil
	}
	return from, nil
}

// boot is the median of the times in which the Machines of a shard were provisioned.
func (m *maker) boot(s *shards.Shard) time.Duration {
	var all []time.Duration
	for _, obj := range s.Objects {
		one, is := obj.(*clusterv1.Machine)
		if !is {
			continue
		}
		if c := conditions.Get(one, clusterv1.MachineInfrastructureReadyCondition); c != nil && c.Status == metav1.ConditionTrue {
			if took := c.LastTransitionTime.Sub(one.CreationTimestamp.Time); took >= 0 && took < time.Hour {
				all = append(all, max(took, time.Second))
			}
		}
	}
	if len(all) == 0 {
		m.assume(s.Cluster, fmt.Sprintf("Machines are assumed to become Nodes after %s: none shows how long it takes", defaultBoot))
		return defaultBoot
	}
	slices.Sort(all)
	boot := all[len(all)/2].Round(time.Second)
	m.assume(s.Cluster, fmt.Sprintf("Machines are assumed to become Nodes after %s, the median of those of the Cluster", boot))
	return boot
}

// wrote records when the last write was.
func (c *copied) wrote() {
	if n := c.count(); n != c.writes {
		c.writes, c.written = n, c.Clock.Now().Sub(c.start)
	}
}

// observe records what the Machines are now.
func (c *copied) observe() {
	if c.observed == nil {
		return
	}
	var machines []*clusterv1.Machine
	for _, obj := range c.Stored(machineKind) {
		if m := obj.(*clusterv1.Machine); m.Namespace == c.cluster.Namespace && m.Spec.ClusterName == c.cluster.Name {
			machines = append(machines, m)
		}
	}
	c.observed.Add(c.Clock.Now().Sub(c.start), machines)
}

// settle runs the copy without the change. It returns why the Cluster cannot be
// predicted, or nil.
func (c *copied) settle(ctx context.Context, ofOthers bool) *planv1.NotPredicted {
	before := c.snapshot()
	for taken := false; ; taken = true {
		writes := c.Writes()
		if err := c.RunFor(ctx, settling); err != nil {
			return &planv1.NotPredicted{Reason: planv1.Failed, Message: fmt.Sprintf("Without the change: %v", err)}
		}
		if why := c.notAsked(); why != nil {
			return why
		}
		if c.Writes() == writes {
			return nil
		}
		moved := c.differences(before, true, ofResourceSets)
		if ofOthers && !taken && !slices.ContainsFunc(moved, decides) {
			before = c.snapshot()
			continue
		}
		if len(moved) == 0 {
			return nil // what was written changed nothing
		}
		return &planv1.NotPredicted{
			Reason:  planv1.NotAtRest,
			Message: "The Cluster changes without the change: it is not yet in a steady state, or waits for what cannot be seen from here. Make the plan again when it has ended.",
			Objects: moved[:min(len(moved), maxObjects)],
		}
	}
}

func (c *copied) notAsked() *planv1.NotPredicted {
	if what := c.outside.NotAsked(); what != "" {
		return &planv1.NotPredicted{Reason: planv1.HookNotAsked, Message: "The answer of a runtime extension decides, and it could not be called: " + what}
	}
	return nil
}

// snapshot returns all objects of the copy by their UID.
func (c *copied) snapshot() map[types.UID]client.Object {
	all := map[types.UID]client.Object{}
	for _, kind := range c.Kinds() {
		for _, obj := range c.Stored(kind) {
			all[obj.GetUID()] = obj
		}
	}
	return all
}

// differences are the objects that are new, or differ from what they were; with status
// if that counts too.
func (c *copied) differences(before map[types.UID]client.Object, status bool, skip func(client.Object) bool) (all []planv1.Object) {
	for _, kind := range c.Kinds() {
		for _, obj := range c.Stored(kind) {
			if d, differs := difference(kind, before[obj.GetUID()], obj, status); differs && !c.rotated(obj, d) && !skip(obj) {
				all = append(all, d)
			}
		}
	}
	return all
}

// difference describes how an object differs from what it was.
func difference(kind schema.GroupVersionKind, old, obj client.Object, status bool) (planv1.Object, bool) {
	d := planv1.Object{Kind: kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Action: planv1.Changed}
	if old == nil {
		d.Action = planv1.Created
		return d, true
	}
	if version := obj.GetResourceVersion(); version != "" && version == old.GetResourceVersion() {
		return d, false
	}
	d.Fields = outcome.Fields(old, obj)
	if status {
		d.Fields = append(d.Fields, outcome.StatusFields(old, obj)...)
	}
	if old.GetDeletionTimestamp().IsZero() != obj.GetDeletionTimestamp().IsZero() {
		d.Action = planv1.Deleted
	}
	return d, len(d.Fields) > 0 || d.Action == planv1.Deleted
}

// carryOut makes the change in the copy, and runs it to its end.
func (m *maker) carryOut(ctx context.Context, c *copied, out *planv1.Cluster) *planv1.NotPredicted {
	if why := c.foreign(); why != nil {
		return why
	}
	before := c.snapshot()
	calls := len(c.outside.Hooks())
	c.start, c.written, c.observed = c.Clock.Now(), 0, &outcome.Observations{}
	c.observe()
	if err := m.write(ctx, c, out); err != nil {
		return &planv1.NotPredicted{Reason: planv1.Failed, Message: fmt.Sprintf("With the change: %v", err)}
	}
	if why := c.notAsked(); why != nil {
		return why
	}
	pools, why := c.pools(before)
	if why != nil {
		return why
	}
	out.Pools = pools
	out.Machines, out.Groups, out.Unending = c.observed.Machines(), c.observed.Groups(), c.observed.Unending()
	out.Machines = undecided(out.Machines, pools)
	for _, call := range c.outside.Hooks()[calls:] {
		call.After.Duration -= c.start.Sub(m.Now)
		out.Hooks = append(out.Hooks, call)
		if call.Hook == "UpdateMachine" {
			m.assume(c.cluster, fmt.Sprintf("An update of a Machine in place is assumed to take %s, in which the Machine is not available", c.outside.UpdateTakes()))
		}
	}
	out.Objects = c.objects(before)
	for _, text := range c.applied(before) {
		m.assume(c.cluster, text)
	}
	out.Blocked = c.blocked()
	return nil
}

// write makes the change, and runs the copy to the end of it.
func (m *maker) write(ctx context.Context, c *copied, out *planv1.Cluster) error {
	waited := false
	for i, w := range c.change {
		if w.waits && i > 0 {
			if err := m.run(ctx, c, out, true); err != nil {
				return err
			}
			waited = true
		}
		if err := w.perform(ctx, c, waited); err != nil {
			return err
		}
	}
	return m.run(ctx, c, out, false)
}

// run lets time pass until nothing has changed for a while and no machine boots, or until
// the horizon. If another write waits, what was written before has been carried out then.
// What has failed is tried again after each step.
func (m *maker) run(ctx context.Context, c *copied, out *planv1.Cluster, waits bool) error {
	step := step
	if waits {
		step = between
	}
	ended := func() bool {
		idle := c.Clock.Now().Sub(c.start) - c.written
		return c.observed.Repeats() || c.outside.TooMany() != nil || !c.outside.Busy() && (idle >= quiet || waits && idle >= between && c.observed.Settled())
	}
	for left := m.Horizon - c.Clock.Now().Sub(c.start); ; left -= step {
		reached, err := c.Pass(ctx, min(step, left), ended)
		switch {
		case ctx.Err() != nil, err != nil && left <= step:
			return err
		case c.outside.TooMany() != nil:
			return c.outside.TooMany()
		case err == nil && (reached || ended()), left <= step:
			out.Takes.Duration = c.written.Round(time.Second)
			return nil
		}
	}
}

// objects are those other than Machines that the change has written.
func (c *copied) objects(before map[types.UID]client.Object) (all []planv1.Object) {
	all = c.differences(before, false, func(obj client.Object) bool { _, is := obj.(*clusterv1.Machine); return is })
	all = slices.DeleteFunc(all, func(d planv1.Object) bool {
		return slices.ContainsFunc(c.change, func(w *written) bool {
			return w.name.Kind == d.Kind && w.name.Namespace == d.Namespace && w.name.Name == d.Name
		})
	})
	now := c.snapshot()
	for uid, obj := range before {
		if kind, err := apiutil.GVKForObject(obj, c.Mgmt.Scheme()); err == nil && kind != machineKind && now[uid] == nil {
			all = append(all, planv1.Object{Kind: kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Action: planv1.Deleted})
		}
	}
	slices.SortStableFunc(all, func(a, b planv1.Object) int { return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name) })
	return all[:min(len(all), maxObjects)]
}

// foreign returns why a change of what only another provider's controller decides
// cannot be predicted; nil if there is none.
func (c *copied) foreign() *planv1.NotPredicted {
	for _, w := range c.change {
		if of, is := w.after.(*clusterv1.Cluster); is && w.deletes && of.Spec.ControlPlaneRef.IsDefined() && of.Spec.ControlPlaneRef.APIGroup != controlplanev1.GroupVersion().Group {
			return &planv1.NotPredicted{
				Reason:  planv1.ForeignControlPlane,
				Message: fmt.Sprintf("%s %s is of another provider: in which order its controller deletes its Machines is not known", of.Spec.ControlPlaneRef.Kind, of.Spec.ControlPlaneRef.Name),
			}
		}
		gvk, err := apiutil.GVKForObject(w.after, c.Mgmt.Scheme())
		of := func(known schema.GroupVersionKind) bool { return known.GroupKind() == gvk.GroupKind() }
		if err != nil || c.Mgmt.Scheme().Recognizes(gvk) || strings.HasSuffix(gvk.Kind, "Template") || !slices.ContainsFunc(c.Kinds(), of) {
			continue // the Cluster refers to no object of a kind that is unknown
		}
		return &planv1.NotPredicted{
			Reason:  planv1.ForeignControlPlane,
			Message: fmt.Sprintf("%s %s is of another provider: what its controller does with the change is not known", gvk.Kind, w.name.Name),
		}
	}
	return nil
}

// waits are the conditions of Machines and of their owners that are true while a change
// waits.
var waits = []string{clusterv1.RollingOutCondition, clusterv1.DeletingCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition}

// blocked are the conditions that the change waits for, without those that repeat the
// message of another. A topology that is not reconciled has changed nothing below it.
func (c *copied) blocked() (all []planv1.Blocked) {
	settled := c.observed.Settled()
	for _, kind := range c.Kinds() {
		if kind.Group == bootstrapv1.GroupVersion().Group {
			continue
		}
		for _, obj := range c.Stored(kind) {
			o, is := obj.(conditions.Getter)
			if !is {
				continue
			}
			for _, at := range o.GetConditions() {
				if at.Type == clusterv1.ClusterTopologyReconciledCondition && at.Status == metav1.ConditionFalse ||
					!settled && slices.Contains(waits, at.Type) && at.Status == metav1.ConditionTrue {
					all = append(all, planv1.Blocked{Kind: kind.Kind, Name: obj.GetName(), Type: at.Type, Reason: at.Reason, Message: sanitize.Line(at.Message, maxMessage)})
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(b planv1.Blocked) bool {
		return slices.ContainsFunc(all, func(other planv1.Blocked) bool {
			return len(other.Message) < len(b.Message) && other.Message != "" && strings.Contains(b.Message, other.Message)
		})
	})
}

// maxMessage bounds the message of a condition in bytes, as the API does.
const maxMessage = 32 << 10
