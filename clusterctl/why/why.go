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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
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
	start, err := c.get(ctx, referenceTo(key))
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
	for _, o := range r.warned {
		if of := r.objects[o.Key]; of != nil {
			of.Warn(o.Warnings[0])
		}
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
	gvk, err := c.mapped(referenceTo(key))
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

	warned []causes.Object // with one Event each; written by readWarnings alone
}

// readCluster reads the Cluster and what belongs to it.
func (r *evidence) readCluster(ctx context.Context, key client.ObjectKey) error {
	cluster, err := r.get(ctx, referenceTo(causes.Key{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind, Namespace: key.Namespace, Name: key.Name}))
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
		r.put(causes.Object{Key: keyOf(at), Missing: true})
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

// readClass reads the class of a Cluster, which may be in another namespace.
func (r *evidence) readClass(ctx context.Context, cluster *unstructured.Unstructured) error {
	for _, ref := range causes.Read(cluster).Refs {
		if ref.To.Kind != clusterv1.ClusterClassKind {
			continue
		}
		obj, err := r.get(ctx, referenceTo(ref.To))
		switch {
		case err != nil:
			return unreadable(err)
		case obj == nil:
			r.put(causes.Object{Key: ref.To, Missing: true})
		default:
			r.add(obj)
		}
	}
	return nil
}

// readQuotas adds the limits that are used up.
func (r *evidence) readQuotas(ctx context.Context) error {
	var list corev1.ResourceQuotaList
	if err := unreadable(r.mgmt.List(ctx, &list, client.InNamespace(r.start.GetNamespace()))); err != nil {
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
	err := unreadable(r.mgmt.List(ctx, &list, client.InNamespace(r.start.GetNamespace()), client.MatchingFields{"type": corev1.EventTypeWarning}, client.Limit(mostWarnings)))
	if err != nil {
		return fmt.Errorf("list Events: %w", err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		about := e.InvolvedObject
		o := causes.Object{Key: causes.Key{Group: about.GroupVersionKind().Group, Kind: about.Kind, Namespace: about.Namespace, Name: about.Name}}
		o.Warn(causes.Warning{Reason: e.Reason, Message: e.Message, Last: metav1.NewTime(EventTime(e))})
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
			r.wanted = append(r.wanted, referenceTo(ref.To))
		}
	}
}

func (r *evidence) put(o causes.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects[o.Key] = &o
}

func referenceTo(k causes.Key) reference {
	return reference{k.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: k.Group, Kind: k.Kind, Name: k.Name}}
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

// aboutReplacement are reasons of Events that state why a Machine is deleted or remediated.
var aboutReplacement = []string{"SuccessfulDelete", "MachineMarkedUnhealthy", "Remediated", "RemediationStarted"}

// WhyReplaced explains why a Machine is or was replaced. A deleted Machine is explained by
// the Events that exist of it.
func (c *Client) WhyReplaced(ctx context.Context, key causes.Key) (none causes.Replacement, err error) {
	if key.Kind != "Machine" {
		return none, fmt.Errorf("%s is not a Machine: only Machines are replaced", key)
	}
	obj, err := c.get(ctx, referenceTo(key))
	if err != nil {
		return none, err
	}
	var machine *causes.Object
	if obj != nil {
		machine = new(causes.Read(obj))
	}
	var list corev1.EventList
	if err := c.mgmt.List(ctx, &list, client.InNamespace(key.Namespace)); err != nil {
		return none, fmt.Errorf("list Events: %w", err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return EventTime(&a).Compare(EventTime(&b)) })
	var events []causes.Statement
	for i := range list.Items {
		e := &list.Items[i]
		about := e.InvolvedObject.Name == key.Name || e.Related != nil && e.Related.Name == key.Name || causes.Names(e.Message, key.Name)
		if about && slices.ContainsFunc(aboutReplacement, func(reason string) bool { return strings.HasPrefix(e.Reason, reason) }) {
			events = append(events, causes.Statement{
				Source: fmt.Sprintf("Event %s of %s %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name), Text: e.Message, At: new(metav1.NewTime(EventTime(e))),
			})
		}
	}
	if machine == nil && len(events) == 0 {
		return none, fmt.Errorf("%s not found, and no Event is about it: the API server deletes Events after some time", key)
	}
	return causes.Replaced(machine, key, events), nil
}
