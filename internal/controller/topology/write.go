// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/apply"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// compute computes the desired state of all objects.
func (r *Reconciler) compute(ctx context.Context, s *state) (reconciler.Next, error) {
	patches, err := r.Classes.Patches(s.class)
	if err != nil {
		return reconciler.Continue(), err
	}
	w := r.writer()
	in := desired.Input{
		Cluster: s.wanted, Blueprint: s.blueprint, Contract: s.contract, Patches: patches, Current: s.current, Plan: *s.facts.Plan,
		Templates: func(ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
			return r.classTemplate(ctx, s, ref)
		},
		Same: func(current, wanted *unstructured.Unstructured) (bool, error) {
			return w.SpecUnchanged(ctx, wanted, current, &s.memory.written)
		},
		Applied: func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return w.Applied(ctx, current)
		},
	}
	facts := desired.Record(&in)
	s.desired, err = desired.Compute(in, patchers{r.Extensions, ctx, s})
	outline := facts.Outline(s.desired, err)
	decisions.Add(ctx, *facts, outline)
	s.facts.Held = s.desired.Held()
	if s.desired.Err != nil {
		s.problems = append(s.problems, s.desired.Err)
	}
	return reconciler.Continue(), err
}

// classTemplate reads a template that the class names.
func (r *Reconciler) classTemplate(ctx context.Context, s *state, ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
	kind := ref.GroupVersionKind()
	if err := r.watch(ctx, kind, s); err != nil {
		return nil, err
	}
	obj, err := r.Providers.GetAs(ctx, kind, client.ObjectKey{Namespace: s.class.Namespace, Name: ref.Name})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no %s %s/%s: create it, or correct ClusterClass %s", ref.Kind, s.class.Namespace, ref.Name, s.class.Name)
	}
	if err != nil {
		return nil, err
	}
	return obj.Unstructured, nil
}

// writeCluster stores, before any object is written, the references by which the
// objects will be found, and the pending hooks.
func (r *Reconciler) writeCluster(ctx context.Context, s *state) (reconciler.Next, error) {
	c, plan := s.cluster.DeepCopy(), s.facts.Plan
	commit := patch.Snapshot(r.Mgmt, c)
	metav1.SetMetaDataLabel(&c.ObjectMeta, clusterv1.ClusterNameLabel, c.Name)
	metav1.SetMetaDataLabel(&c.ObjectMeta, clusterv1.ClusterTopologyOwnedLabel, "")
	annotate(c, runtimev1.PendingHooksAnnotation, inplace.List(plan.Pending))
	annotate(c, clusterv1.ClusterTopologyUpgradeStepAnnotation, plan.Step)
	if s.lost == nil {
		c.Spec.InfrastructureRef = s.desired.InfrastructureRef
	}
	c.Spec.ControlPlaneRef = s.desired.ControlPlaneRef
	if err := commit(ctx); err != nil {
		return reconciler.Continue(), err
	}
	s.generation, s.cluster.ResourceVersion = patch.Generation(c, &s.cluster.Spec, c.Spec), c.ResourceVersion
	return reconciler.Continue(), nil
}

// annotate sets an annotation, or removes it if its value would be empty.
func annotate(c *clusterv1.Cluster, name, value string) {
	if value == "" {
		delete(c.Annotations, name)
		return
	}
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, name, value)
}

// writeObjects updates all objects to their desired state, each independently of
// failures of objects to which it does not refer.
func (r *Reconciler) writeObjects(ctx context.Context, s *state) (reconciler.Next, error) {
	w := &writing{Reconciler: r, state: s, applies: r.writer()}
	if s.lost == nil {
		w.failed(s.desired.Infrastructure.Err)
		w.write(ctx, s.desired.Infrastructure.Object, change{})
	}
	cp := s.desired.ControlPlane
	w.failed(cp.Err)
	if w.template(ctx, cp.Hosts, s.current.Hosts) {
		w.write(ctx, cp.Object, change{from: s.facts.Upgrade.ControlPlane.Version, to: s.facts.Plan.ControlPlane.Version})
	}
	w.write(ctx, cp.HealthCheck, change{})
	for _, p := range s.desired.Deployments {
		w.group(ctx, upgrade.GroupKey{Kind: upgrade.MachineDeployment, Name: p.Name}, p)
	}
	for _, p := range s.desired.Pools {
		w.group(ctx, upgrade.GroupKey{Kind: upgrade.MachinePool, Name: p.Name}, p)
	}
	return reconciler.Continue(), nil
}

// writing is the part of a reconcile that writes objects.
type writing struct {
	*Reconciler
	*state
	applies *apply.Writer
}

// change has the details of a write for its event, in addition to the object.
type change struct {
	old      *unstructured.Unstructured // the template that was used so far
	from, to string                     // versions
}

func (w *writing) group(ctx context.Context, key upgrade.GroupKey, p desired.GroupPart) {
	w.failed(p.Err)
	was := cmp.Or(w.groups[key], &group{})
	bootstrap, hosts := w.template(ctx, p.Bootstrap, was.Bootstrap), w.template(ctx, p.Hosts, was.Hosts)
	if bootstrap && hosts {
		w.write(ctx, p.Object, change{from: was.version, to: w.facts.Plan.Workers[key].Version})
	}
	w.write(ctx, p.HealthCheck, change{})
}

// template is write for a copy of a template, or an object of a pool.
func (w *writing) template(ctx context.Context, wanted, old *unstructured.Unstructured) bool {
	w.uses(wanted, old)
	return w.write(ctx, wanted, change{old: old})
}

// write updates an object to its desired state. It reports whether objects that
// refer to it may be written.
func (w *writing) write(ctx context.Context, wanted *unstructured.Unstructured, c change) bool {
	if wanted == nil {
		return true
	}
	err := w.try(ctx, wanted, c)
	w.failed(err)
	return err == nil
}

func (w *writing) failed(err error) {
	if err != nil {
		w.problems = append(w.problems, err)
	}
}

func (w *writing) try(ctx context.Context, wanted *unstructured.Unstructured, c change) error {
	live, err := w.live(ctx, w.state, wanted)
	if err != nil {
		return err
	}
	if live != nil && !w.owns(live) {
		return reconcile.TerminalError(fmt.Errorf("%s %s is there already, and is not of the topology of Cluster %s: delete it, or give it label %s, and %s %[3]s", wanted.GetKind(), client.ObjectKeyFromObject(live), w.cluster.Name, clusterv1.ClusterTopologyOwnedLabel, clusterv1.ClusterNameLabel))
	}
	out, err := w.applies.Write(ctx, wanted, live, &w.memory.written)
	if err != nil {
		return err
	}
	for _, left := range out.Remains {
		w.notes = append(w.notes, fmt.Sprintf("%s %s: %s is no longer desired, and stays because %s has it too", wanted.GetKind(), wanted.GetName(), left.Path, left.By))
	}
	switch name := client.ObjectKeyFromObject(wanted).String(); {
	case out.Did == apply.Nothing:
		return nil
	case out.Did == apply.Created && c.old != nil && c.old.GetName() != wanted.GetName():
		w.note("Create", "Created %s %q as a replacement for %q (template rotation)", wanted.GetKind(), name, client.ObjectKeyFromObject(c.old).String())
	case out.Did == apply.Created:
		w.note("Create", "Created %s %q", wanted.GetKind(), name)
	case c.from != "" && c.from != c.to:
		w.note("Update", "Updated %s %q with version change from %s to %s", wanted.GetKind(), name, c.from, c.to)
	case reflect.DeepEqual(live.Object["spec"], out.Object.Object["spec"]):
		w.note("Update", "Updated %s %q (metadata changes)", wanted.GetKind(), name)
	default:
		w.note("Update", "Updated %s %q", wanted.GetKind(), name)
	}
	ctrl.LoggerFrom(ctx).Info("Applied an object of the topology", "did", out.Did, "kind", wanted.GetKind(), "name", wanted.GetName(), "reason", out.Reason)
	return nil
}

// live reads an object by its name, nil if not found, and watches its kind.
func (r *Reconciler) live(ctx context.Context, s *state, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	kind, key := wanted.GroupVersionKind(), client.ObjectKeyFromObject(wanted)
	if kind.Group == clusterv1.GroupVersion().Group {
		typed, err := r.Mgmt.Scheme().New(kind)
		if err != nil {
			return nil, err
		}
		obj := typed.(client.Object)
		if err := r.Mgmt.Get(ctx, key, obj); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return untyped(obj, kind.Kind)
	}
	if err := r.watch(ctx, kind, s); err != nil {
		return nil, err
	}
	obj, err := r.Providers.GetAs(ctx, kind, key)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return obj.Unstructured, nil
}

// note records a write, for an event.
func (s *state) note(reason, text string, args ...any) {
	if s.did == nil {
		s.did = map[string][]string{}
	}
	s.did[reason] = append(s.did[reason], fmt.Sprintf(text, args...))
}

// longestNote is the maximum length of an event's note.
const longestNote = 1024

// emitWrites emits events for all writes, as few as possible.
func (r *Reconciler) emitWrites(s *state) {
	for _, reason := range []string{"Create", "Update", "Delete"} {
		var note string
		for _, did := range append(s.did[reason], "") {
			if note != "" && (did == "" || len(note)+len("; ")+len(did) > longestNote) {
				r.Recorder.Eventf(s.cluster, nil, corev1.EventTypeNormal, "Topology"+reason, reason, "%s", note)
				note = ""
			}
			if note = strings.TrimPrefix(note+"; "+did, "; "); len(note) > longestNote {
				note = note[:longestNote]
			}
		}
	}
}
