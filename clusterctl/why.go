// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/topology/classrefs"
)

// Why explains an object with the objects that ReadCauses returns.
func (c *Client) Why(ctx context.Context, key causes.Key) (causes.Result, error) {
	objects, err := c.ReadCauses(ctx, key)
	if err != nil {
		return causes.Result{}, err
	}
	return causes.Find(objects, key), nil
}

// ReadCauses reads an object and all that may be the cause of its state: the objects of its
// Cluster, what they refer to, extensions, quotas and Events of type Warning. What the user
// may not read, and kinds that are not installed, are left out. Secrets are not read.
//
// The number of requests does not grow with that of machines.
func (c *Client) ReadCauses(ctx context.Context, key causes.Key) ([]causes.Object, error) {
	at := reference{key.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: key.Group, Kind: key.Kind, Name: key.Name}}
	start, err := c.get(ctx, at)
	if err != nil {
		return nil, err
	}
	if start == nil {
		return nil, fmt.Errorf("%s not found%s", key, c.otherNamespaces(ctx, key))
	}
	r := evidence{Client: c, start: start, objects: map[causes.Key]*causes.Object{}}
	r.add(start)
	if name := clusterOf(start); name != "" {
		err = r.readCluster(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name})
	} else {
		err = together(ctx, r.readExtensions, r.readReferred)
	}
	if err != nil {
		return nil, err
	}
	var all []causes.Object
	for _, k := range slices.SortedFunc(maps.Keys(r.objects), func(a, b causes.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		all = append(all, *r.objects[k])
	}
	return all, nil
}

// otherNamespaces is a hint to the namespaces that have an object of that name.
func (c *Client) otherNamespaces(ctx context.Context, key causes.Key) string {
	if key.Namespace == "" {
		return ""
	}
	gvk, err := c.mapped(reference{key.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: key.Group, Kind: key.Kind}})
	if err != nil {
		return ""
	}
	objects, err := c.listKind(ctx, gvk, client.MatchingFields{"metadata.name": key.Name})
	if err != nil || len(objects) == 0 {
		return ""
	}
	return fmt.Sprintf(": namespace %s has one: use -n %s", objects[0].GetNamespace(), objects[0].GetNamespace())
}

// clusterOf is the name of the Cluster to which an object belongs, or "".
func clusterOf(obj *unstructured.Unstructured) string {
	if obj.GetKind() == clusterv1.ClusterKind {
		return obj.GetName()
	}
	owner := ""
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Kind == clusterv1.ClusterKind {
			owner = ref.Name
		}
	}
	return cmp.Or(obj.GetLabels()[clusterv1.ClusterNameLabel], read(obj).Spec.ClusterName, owner)
}

// evidence is what has been read so far.
type evidence struct {
	*Client
	start *unstructured.Unstructured

	mu      sync.Mutex // guards the fields below
	objects map[causes.Key]*causes.Object
	wanted  []reference
}

// readCluster reads the Cluster and what belongs to it.
func (r *evidence) readCluster(ctx context.Context, key client.ObjectKey) error {
	ref := reference{key.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind, Name: key.Name}}
	cluster, err := r.get(ctx, ref)
	if err != nil {
		return err
	}
	reads := []func(context.Context) error{r.readExtensions, r.readQuotas, r.readWarnings}
	if cluster != nil {
		r.add(cluster)
		reads = append(reads, func(ctx context.Context) error { return r.readControlPlane(ctx, cluster) }, func(ctx context.Context) error { return r.readClass(ctx, cluster) })
	}
	for _, kind := range []string{"MachineDeployment", "MachineSet", "MachinePool", "MachineHealthCheck", "Machine"} {
		reads = append(reads, func(ctx context.Context) error {
			return r.readList(ctx, clusterv1.GroupVersion().WithKind(kind), client.InNamespace(key.Namespace), ofCluster(key.Name))
		})
	}
	if err := together(ctx, reads...); err != nil {
		return err
	}
	return r.readReferred(ctx)
}

// readReferred reads the objects that those read before refer to.
func (r *evidence) readReferred(ctx context.Context) error {
	found, err := r.find(ctx, client.ObjectKey{Namespace: r.start.GetNamespace(), Name: clusterOf(r.start)}, r.wanted)
	if err = unreadable(err); err != nil {
		return err
	}
	for at, obj := range found {
		if obj != nil {
			r.add(obj)
			continue
		}
		key := keyOf(at)
		r.objects[key] = &causes.Object{Key: key, Missing: true}
	}
	return nil
}

func (r *evidence) readList(ctx context.Context, gvk schema.GroupVersionKind, of ...client.ListOption) error {
	objects, err := r.listKind(ctx, gvk, of...)
	for i := range objects {
		r.add(&objects[i])
	}
	return unreadable(err)
}

func (r *evidence) readExtensions(ctx context.Context) error {
	return r.readList(ctx, runtimev1.GroupVersion().WithKind("ExtensionConfig"))
}

func (r *evidence) readControlPlane(ctx context.Context, cluster *unstructured.Unstructured) error {
	at := reference{cluster.GetNamespace(), read(cluster).Spec.ControlPlaneRef}
	obj, err := r.get(ctx, at)
	if obj != nil {
		r.add(obj)
	}
	return unreadable(err)
}

func (r *evidence) readClass(ctx context.Context, cluster *unstructured.Unstructured) error {
	of, class := &clusterv1.Cluster{}, &clusterv1.ClusterClass{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cluster.Object, of); err != nil {
		return fmt.Errorf("read Cluster %s: %w", cluster.GetName(), err)
	}
	key := of.GetClassKey()
	if key.Name == "" {
		return nil
	}
	at := classReference(key)
	obj, err := r.get(ctx, at)
	if obj == nil {
		if err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.objects[keyOf(at)] = &causes.Object{Key: keyOf(at), Missing: true}
		}
		return unreadable(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, class); err != nil {
		return fmt.Errorf("read ClusterClass %s: %w", key, err)
	}
	r.add(obj)
	return nil
}

func classReference(key client.ObjectKey) reference {
	return reference{key.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterClassKind, Name: key.Name}}
}

// readQuotas adds the limits that are used up.
func (r *evidence) readQuotas(ctx context.Context) error {
	var list corev1.ResourceQuotaList
	if err := unreadable(r.mgmt.List(ctx, &list, client.InNamespace(r.start.GetNamespace()))); err != nil {
		return fmt.Errorf("list ResourceQuotas: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, quota := range list.Items {
		o := &causes.Object{Key: causes.Key{Kind: "ResourceQuota", Namespace: quota.Namespace, Name: quota.Name}, Created: quota.CreationTimestamp}
		for resource, hard := range quota.Status.Hard {
			if used, ok := quota.Status.Used[resource]; ok && used.Cmp(hard) >= 0 {
				o.Exhausted = append(o.Exhausted, string(resource))
			}
		}
		slices.Sort(o.Exhausted)
		if len(o.Exhausted) > 0 {
			r.objects[o.Key] = o
		}
	}
	return nil
}

// mostWarnings bounds the Events that are read; further ones are of little use to a reader.
const mostWarnings = 1000

// readWarnings adds the last Event of type Warning of each object and reason.
func (r *evidence) readWarnings(ctx context.Context) error {
	var list corev1.EventList
	err := unreadable(r.mgmt.List(ctx, &list, client.InNamespace(r.start.GetNamespace()), client.MatchingFields{"type": corev1.EventTypeWarning}, client.Limit(mostWarnings)))
	if err != nil {
		return fmt.Errorf("list Events: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list.Items {
		e := &list.Items[i]
		about := e.InvolvedObject
		key := causes.Key{Group: about.GroupVersionKind().Group, Kind: about.Kind, Namespace: about.Namespace, Name: about.Name}
		o := r.objects[key]
		if o == nil {
			o = &causes.Object{Key: key}
			r.objects[key] = o
		}
		w := causes.Warning{Reason: e.Reason, Message: e.Message, Last: metav1.NewTime(EventTime(e))}
		at := slices.IndexFunc(o.Warnings, func(w causes.Warning) bool { return w.Reason == e.Reason })
		switch {
		case at < 0:
			o.Warnings = append(o.Warnings, w)
		case o.Warnings[at].Last.Before(&w.Last):
			o.Warnings[at] = w
		}
	}
	return nil
}

// add adds an object, and notes what it refers to.
func (r *evidence) add(obj *unstructured.Unstructured) {
	o, refs := r.reduced(obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.objects[o.Key]; other != nil {
		o.Warnings = other.Warnings
	}
	r.objects[o.Key] = &o
	r.wanted = append(r.wanted, refs...)
}

// reduced is what an explanation needs of an object, and the objects to read that it
// refers to. Those of a Machine that is ready and stays have nothing to report.
func (r *evidence) reduced(obj *unstructured.Unstructured) (o causes.Object, refs []reference) {
	gvk, shown := obj.GroupVersionKind(), seen(obj)
	o = causes.Object{
		Key: causes.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
		UID: shown.UID, Created: shown.Created, Deleted: shown.Deleted, Finalizers: obj.GetFinalizers(), Conditions: shown.Conditions,
	}
	for _, owner := range shown.Owners {
		o.Owners = append(o.Owners, string(owner.UID))
	}
	if paused, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused"); paused {
		o.Paused = "spec.paused"
	}
	for _, name := range slices.Sorted(maps.Keys(obj.GetAnnotations())) {
		switch {
		case name == clusterv1.PausedAnnotation:
			o.Paused = cmp.Or(o.Paused, "annotation "+name)
		case strings.Contains(name, ".hook."):
			o.Hooks = append(o.Hooks, name)
		}
	}
	refer := func(field string, at reference, wanted bool) {
		if at.Name == "" {
			return
		}
		o.Refs = append(o.Refs, causes.Ref{Field: field, To: keyOf(at)})
		if wanted {
			refs = append(refs, at)
		}
	}
	ns, l := obj.GetNamespace(), read(obj)
	unready := func(condition string) bool {
		return gvk.Kind != "Machine" || o.Deleted != nil || obj.GetUID() == r.start.GetUID() || !conditions.IsTrue(conditions.List(o.Conditions), condition)
	}
	refer("spec.infrastructureRef", reference{ns, l.Spec.InfrastructureRef}, unready(clusterv1.InfrastructureReadyCondition))
	refer("spec.bootstrap.configRef", reference{ns, l.Spec.Bootstrap.ConfigRef}, unready(clusterv1.BootstrapConfigReadyCondition))
	refer("spec.controlPlaneRef", reference{ns, l.Spec.ControlPlaneRef}, true)
	refer("spec.template.spec.infrastructureRef", reference{ns, l.Spec.Template.Spec.InfrastructureRef}, true)
	refer("spec.template.spec.bootstrap.configRef", reference{ns, l.Spec.Template.Spec.Bootstrap.ConfigRef}, true)
	refer("spec.machineTemplate.spec.infrastructureRef", reference{ns, l.Spec.MachineTemplate.Spec.InfrastructureRef}, true)
	switch gvk.Kind {
	case clusterv1.ClusterKind:
		cluster := &clusterv1.Cluster{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, cluster) == nil {
			refer("spec.topology.classRef", classReference(cluster.GetClassKey()), false)
		}
	case clusterv1.ClusterClassKind:
		class := &clusterv1.ClusterClass{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, class) == nil {
			for _, t := range classrefs.Distinct(class) {
				ref := t.Ref.GroupVersionKind()
				refer(t.Field, reference{class.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: ref.Group, Kind: ref.Kind, Name: t.Ref.Name}}, true)
			}
		}
	}
	return o, refs
}

func keyOf(at reference) causes.Key {
	return causes.Key{Group: at.APIGroup, Kind: at.Kind, Namespace: at.namespace, Name: at.Name}
}

// unreadable is nil if an error, or each of several that are joined, only means that the
// user may not read a kind or that it is not installed.
func unreadable(err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range all.Unwrap() {
			rest = append(rest, unreadable(e))
		}
		return errors.Join(rest...)
	}
	_, absent := errors.AsType[*NotInstalledError](err)
	if absent || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
