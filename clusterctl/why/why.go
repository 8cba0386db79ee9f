// SPDX-License-Identifier: Apache-2.0

// Package why reads what may be the cause of the state of an object, from any management
// cluster, and explains the object with it.
package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

// Reader reads a management cluster.
type Reader struct {
	references.Reader
	Raw rest.Interface // for paths of the API server; nil: it prints no tables and records no decisions
}

// Explain explains an object with the objects that Read returns.
func (c Reader) Explain(ctx context.Context, key causes.Key) (causes.Result, error) {
	objects, unread, err := c.Read(ctx, key)
	if err != nil {
		return causes.Result{}, err
	}
	result := causes.Find(objects, key)
	result.Unread = unread
	return result, nil
}

// Read reads an object and all that may be the cause of its state: the objects of its
// Cluster, what they refer to, extensions, quotas and Events of type Warning. What the user
// may not read is left out, and its resources are returned; so are kinds that are not
// installed. Secrets are not read.
//
// The number of requests does not grow with that of machines.
func (c Reader) Read(ctx context.Context, key causes.Key) (all []causes.Object, unread []string, err error) {
	start, err := c.Get(ctx, references.To(key))
	if err != nil {
		return nil, nil, err
	}
	if start == nil {
		return nil, nil, fmt.Errorf("%s not found%s", key, c.otherNamespaces(ctx, key))
	}
	r := evidence{Reader: c, start: start, objects: map[causes.Key]*causes.Object{}, unread: map[string]bool{}}
	r.add(start)
	if name := clusterOf(start); name != "" {
		err = r.readCluster(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name})
	} else {
		err = references.Together(ctx, r.readExtensions, r.readReferred)
	}
	if err == nil {
		err = r.readProviders(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, o := range r.warned {
		if of := r.objects[o.Key]; of != nil {
			of.Warn(o.Warnings[0])
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(r.objects), func(a, b causes.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		all = append(all, *r.objects[k])
	}
	return all, slices.Sorted(maps.Keys(r.unread)), nil
}

// otherNamespaces is a hint to the namespaces that have an object of that name.
func (c Reader) otherNamespaces(ctx context.Context, key causes.Key) string {
	if key.Namespace == "" {
		return ""
	}
	gvk, err := c.Mapped(references.To(key))
	if err != nil {
		return ""
	}
	objects, err := c.ListKind(ctx, gvk, client.MatchingFields{"metadata.name": key.Name})
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
	name, _, _ := unstructured.NestedString(obj.Object, "spec", "clusterName")
	owner := ""
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Kind == clusterv1.ClusterKind {
			owner = ref.Name
		}
	}
	return cmp.Or(obj.GetLabels()[clusterv1.ClusterNameLabel], name, owner)
}

// evidence is what has been read so far.
type evidence struct {
	Reader
	start *unstructured.Unstructured

	mu      sync.Mutex // guards the fields below
	objects map[causes.Key]*causes.Object
	wanted  []references.Reference
	unread  map[string]bool // resources without permission

	warned []causes.Object // with one Event each; written by readWarnings alone
}

// readCluster reads the Cluster and what belongs to it.
func (r *evidence) readCluster(ctx context.Context, key client.ObjectKey) error {
	cluster := r.start
	if cluster.GetKind() != clusterv1.ClusterKind {
		var err error
		cluster, err = r.Get(ctx, references.To(causes.Key{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind, Namespace: key.Namespace, Name: key.Name}))
		if err = r.readable(err); err != nil {
			return err
		}
	}
	reads := []func(context.Context) error{r.readExtensions, r.readQuotas, r.readWarnings, func(ctx context.Context) error { return r.readMachines(ctx, key) }}
	if cluster != nil {
		r.add(cluster)
		for _, read := range []func(context.Context, *unstructured.Unstructured) error{r.readFirst, r.readBinding, r.readMove} {
			reads = append(reads, func(ctx context.Context) error { return read(ctx, cluster) })
		}
	}
	for _, kind := range []string{"MachineDeployment", "MachineSet", "MachinePool", "MachineHealthCheck"} {
		reads = append(reads, func(ctx context.Context) error {
			return r.readList(ctx, clusterv1.GroupVersion().WithKind(kind), client.InNamespace(key.Namespace), references.OfCluster(key.Name))
		})
	}
	if err := references.Together(ctx, reads...); err != nil {
		return err
	}
	return r.readReferred(ctx)
}

// readReferred reads the objects that those read before refer to.
func (r *evidence) readReferred(ctx context.Context) error {
	r.mu.Lock() // extensions may be read at the same time
	wanted := slices.DeleteFunc(slices.Clone(r.wanted), func(at references.Reference) bool { return r.objects[at.Key()] != nil })
	r.mu.Unlock()
	found, err := r.Find(ctx, client.ObjectKey{Namespace: r.start.GetNamespace(), Name: clusterOf(r.start)}, wanted)
	if err = r.readable(err); err != nil {
		return err
	}
	for at, obj := range found {
		if obj != nil {
			r.add(obj)
			continue
		}
		r.put(causes.Object{Key: at.Key(), Missing: true})
	}
	return nil
}

func (r *evidence) readList(ctx context.Context, gvk schema.GroupVersionKind, of ...client.ListOption) error {
	objects, err := r.ListKind(ctx, gvk, of...)
	for i := range objects {
		r.add(&objects[i])
	}
	return r.readable(err)
}

func (r *evidence) readExtensions(ctx context.Context) error {
	return r.readList(ctx, runtimev1.GroupVersion().WithKind("ExtensionConfig"))
}

// readFirst reads the control plane of a Cluster and its class, which may be in another
// namespace: they refer to further objects.
func (r *evidence) readFirst(ctx context.Context, cluster *unstructured.Unstructured) error {
	for _, ref := range causes.Read(cluster).Refs {
		if ref.Field != "spec.controlPlaneRef" && ref.Field != "spec.topology.classRef" {
			continue
		}
		obj, err := r.Get(ctx, references.To(ref.To))
		switch {
		case r.readable(err) != nil:
			return err
		case obj != nil:
			r.add(obj)
		case err == nil:
			r.put(causes.Object{Key: ref.To, Missing: true})
		}
	}
	return nil
}

// readQuotas adds the limits that are used up.
func (r *evidence) readQuotas(ctx context.Context) error {
	var list corev1.ResourceQuotaList
	if err := r.readable(r.Mgmt.List(ctx, &list, client.InNamespace(r.start.GetNamespace()))); err != nil {
		return fmt.Errorf("list ResourceQuotas: %w", err)
	}
	for i := range list.Items {
		r.put(causes.ReadQuota(&list.Items[i]))
	}
	return nil
}

// mostWarnings bounds the Events that are read; further ones are of little use to a reader.
const mostWarnings = 1000

// readWarnings adds the last Event of type Warning of each object and reason.
func (r *evidence) readWarnings(ctx context.Context) error {
	var list corev1.EventList
	err := r.readable(r.Mgmt.List(ctx, &list, client.InNamespace(r.start.GetNamespace()), client.MatchingFields{"type": corev1.EventTypeWarning}, client.Limit(mostWarnings)))
	if err != nil {
		return fmt.Errorf("list Events: %w", err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		about := e.InvolvedObject
		o := causes.Object{Key: causes.Key{Group: about.GroupVersionKind().Group, Kind: about.Kind, Namespace: about.Namespace, Name: about.Name}}
		o.Warn(causes.Warning{Reason: e.Reason, Message: e.Message, Last: metav1.NewTime(causes.EventTime(e))})
		r.warned = append(r.warned, o)
	}
	return nil
}

// add adds an object, and notes what it refers to.
func (r *evidence) add(obj *unstructured.Unstructured) {
	o := causes.Read(obj)
	r.put(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ref := range o.Refs {
		if o.Wanted(ref) || ref.Field != "spec.topology.classRef" && obj.GetUID() == r.start.GetUID() {
			r.wanted = append(r.wanted, references.To(ref.To))
		}
	}
}

func (r *evidence) put(o causes.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects[o.Key] = &o
}

// readable is nil if an error, or each of several that are joined, only means that the
// user may not read a kind, which it notes, or that the kind is not installed.
func (r *evidence) readable(err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, e := range all.Unwrap() {
			rest = append(rest, r.readable(e))
		}
		return errors.Join(rest...)
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsForbidden(err) {
		r.mu.Lock()
		defer r.mu.Unlock()
		details := cmp.Or(status.ErrStatus.Details, &metav1.StatusDetails{})
		r.unread[cmp.Or(schema.GroupResource{Group: details.Group, Resource: details.Kind}.String(), status.ErrStatus.Message)] = true
		return nil
	}
	if _, absent := errors.AsType[*references.NotInstalledError](err); absent || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
