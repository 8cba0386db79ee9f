// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/pure/chaos"
)

// runner sets faults on the objects of a management cluster.
type runner struct {
	mgmt client.Client
	env  *command.Env
}

func newRunner(cfg *rest.Config, env *command.Env) (*runner, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	return &runner{c, env}, err
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(infrav1.AddToScheme(scheme), eventsv1.AddToScheme(scheme))
}

// list is all there is of both kinds.
func (r *runner) list(ctx context.Context, namespace string) ([]infrav1.LocalCluster, []infrav1.LocalMachine, error) {
	var clusters infrav1.LocalClusterList
	if err := r.mgmt.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return nil, nil, fmt.Errorf("list LocalClusters: %w", err)
	}
	var machines infrav1.LocalMachineList
	if err := r.mgmt.List(ctx, &machines, client.InNamespace(namespace)); err != nil {
		return nil, nil, fmt.Errorf("list LocalMachines: %w", err)
	}
	return clusters.Items, machines.Items, nil
}

// find is the infrastructure of clusters by their names; of all, if none is named.
// One that is not simulated is refused.
func (r *runner) find(ctx context.Context, namespace string, names []string) (found []chaos.Cluster, err error) {
	clusters, machines, err := r.list(ctx, namespace)
	if err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	var refused []string
	for i := range clusters {
		c := &clusters[i]
		name := clusterOf(c)
		if name == "" || len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		delete(missing, name)
		if c.Spec.Simulated == nil {
			refused = append(refused, "LocalCluster "+client.ObjectKeyFromObject(c).String())
		}
		one := chaos.Cluster{Namespace: c.Namespace, Name: c.Name}
		for i := range machines {
			m := &machines[i]
			if m.Namespace != c.Namespace || clusterOf(m) != name {
				continue
			}
			if m.Spec.Simulated == nil {
				refused = append(refused, "LocalMachine "+client.ObjectKeyFromObject(m).String())
			}
			_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
			one.Machines = append(one.Machines, chaos.Machine{
				Name: m.Name, Created: m.CreationTimestamp.UTC(), ControlPlane: controlPlane, Booted: len(m.Status.Addresses) > 0,
			})
		}
		found = append(found, one)
	}
	for _, name := range names {
		if missing[name] {
			return nil, fmt.Errorf("cluster %s has no LocalCluster in namespace %s: things go wrong with simulated clusters alone", name, cmp.Or(namespace, "any"))
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("not simulated: %s: things go wrong with simulated clusters alone; choose those with --cluster", strings.Join(refused, ", "))
	}
	return found, nil
}

// clusterOf is the name of the Cluster that an object belongs to.
func clusterOf(obj client.Object) string {
	for _, o := range obj.GetOwnerReferences() {
		if o.Kind == clusterv1.ClusterKind {
			return o.Name
		}
	}
	return obj.GetLabels()[clusterv1.ClusterNameLabel]
}

// run is one run of a plan.
type run struct {
	*runner
	header
	to    *record
	again string // what a user adds to "capstan simulated chaos --stop" to reach the same
}

// done is the outcome of a step that was done.
const done = "done"

// follow executes the plan, and reverts everything at the end, for any cause of the
// end.
func (r *run) follow(ctx context.Context, plan []chaos.Step) error {
	if n, err := r.takeBack(ctx); err != nil {
		return err
	} else if n > 0 {
		r.env.Say("Took back %d faults of an earlier run.", n)
	}
	err := r.steps(ctx, plan)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takingBack)
	defer cancel()
	n, failed := r.insist(ctx)
	if failed != nil {
		return errors.Join(err, fmt.Errorf("take back what was set: %w: `capstan simulated chaos --stop%s` does it later", failed, r.again))
	}
	if n > 0 {
		r.env.Say("Took back %d faults.", n)
	}
	return err
}

func (r *run) steps(ctx context.Context, plan []chaos.Step) error {
	began := r.env.Now()
	until := func(at time.Duration) error { return lifecycle.Sleep(ctx, at-r.env.Now().Sub(began)) }
	for _, s := range plan {
		if err := until(s.At.Duration); err != nil {
			return err
		}
		outcome := done
		switch err := r.do(ctx, s); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case apierrors.IsNotFound(err):
			outcome = "it is gone"
		case err != nil:
			outcome = err.Error()
		}
		text := told(s)
		if outcome != done {
			text += ": " + outcome
		}
		r.env.Print("%s", text)
		if err := r.to.add(entry{r.env.Now().UTC(), s, outcome}); err != nil {
			return fmt.Errorf("write the record: %w", err)
		}
	}
	return until(r.For.Duration)
}

// do sets a fault, or takes it back.
func (r *run) do(ctx context.Context, s chaos.Step) error {
	var obj client.Object = &infrav1.LocalMachine{}
	if s.Kind == chaos.LocalCluster {
		obj = &infrav1.LocalCluster{}
	}
	obj.SetNamespace(s.Namespace)
	obj.SetName(s.Name)
	change, reason, note := func() error { return chaos.Begin(obj, s.Fault) }, "ChaosBegan", "Set the fault %s by chance (seed %d)"
	if s.Ends {
		change, reason, note = func() error { chaos.End(obj, s.Fault); return nil }, "ChaosEnded", "Took the fault %s back (seed %d)"
	}
	err := r.change(ctx, obj, change)
	if err == nil {
		r.event(ctx, obj, reason, fmt.Sprintf(note, s.Fault, r.Seed))
	}
	return err
}

// change changes the latest version of an object. It is repeated if another client
// changes the object meanwhile, because a list of faults is written as a whole.
func (r *runner) change(ctx context.Context, obj client.Object, how func() error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := r.mgmt.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		before := obj.DeepCopyObject().(client.Object)
		if err := how(); err != nil {
			return err
		}
		return r.mgmt.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

func kindOf(obj client.Object) string {
	if _, ok := obj.(*infrav1.LocalCluster); ok {
		return chaos.LocalCluster
	}
	return chaos.LocalMachine
}

// event records a fault as an Event of its object. It is no failure if that is not
// possible.
func (r *runner) event(ctx context.Context, obj client.Object, reason, note string) {
	err := r.mgmt.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), GenerateName: obj.GetName() + "-"},
		EventTime:  metav1.NewMicroTime(r.env.Now()), Type: corev1.EventTypeNormal, Reason: reason, Note: note, Action: "Chaos",
		ReportingController: "capstan.dev/chaos", ReportingInstance: "capstan",
		Regarding: corev1.ObjectReference{
			APIVersion: infrav1.GroupVersion().String(), Kind: kindOf(obj),
			Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		},
	})
	if err != nil && ctx.Err() == nil {
		r.env.Say("Warning: no event was recorded for it: %v", err)
	}
}

// takeBack ends all faults that runs have left, and counts them.
func (r *runner) takeBack(ctx context.Context) (n int, err error) {
	clusters, machines, err := r.list(ctx, metav1.NamespaceAll)
	if err != nil {
		return 0, err
	}
	var objects []client.Object
	for i := range clusters {
		objects = append(objects, &clusters[i])
	}
	for i := range machines {
		objects = append(objects, &machines[i])
	}
	var errs []error
	for _, obj := range objects {
		faults := chaos.Noted(obj)
		if len(faults) == 0 {
			continue
		}
		err := r.change(ctx, obj, func() error {
			for _, f := range chaos.Noted(obj) {
				chaos.End(obj, f)
			}
			return nil
		})
		switch {
		case err == nil:
			n += len(faults)
			r.event(ctx, obj, "ChaosEnded", "Took back what an earlier run has left: "+strings.Join(faults, ", "))
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("%s %s: %w", kindOf(obj), client.ObjectKeyFromObject(obj), err))
		}
	}
	return n, errors.Join(errs...)
}

// insist takes everything back, again and again as long as that fails.
func (r *runner) insist(ctx context.Context) (n int, err error) {
	for {
		some, err := r.takeBack(ctx)
		if n += some; err == nil {
			return n, nil
		}
		if lifecycle.Sleep(ctx, time.Second) != nil {
			return n, err
		}
	}
}
