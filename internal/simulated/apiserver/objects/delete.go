// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var namespaceKind = kinds.Everywhere().ByGroupResource(schemaNamespaces)

// immortal are the namespaces that cannot be deleted.
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// Delete removes an object, or marks it as being deleted if it has finalizers or,
// as a namespace or under foreground propagation, something left in it. gone
// reports whether it was removed. A simulated kubelet stops a Pod immediately, so
// that its grace period ends with the request, unless no kubelet is left that could
// report that it has stopped.
func (s *Store) Delete(k *kinds.Kind, namespace, name string, o metav1.DeleteOptions) (e *store.Entry, gone bool, err error) {
	for range attempts {
		e, gone, err = s.deleteOnce(k, namespace, name, o)
		if !errors.Is(err, store.ErrConflict) {
			return e, gone, err
		}
	}
	return nil, false, conflict(k, name)
}

func (s *Store) deleteOnce(k *kinds.Kind, namespace, name string, o metav1.DeleteOptions) (*store.Entry, bool, error) {
	was, err := s.Entry(k, namespace, name)
	if err != nil {
		return nil, false, err
	}
	latest, err := Read(k, was)
	if err != nil {
		return nil, false, err
	}
	if err := checkPreconditions(k, latest, o.Preconditions); err != nil {
		return nil, false, err
	}
	if k == namespaceKind && slices.Contains(immortal, name) {
		return nil, false, apierrors.NewForbidden(k.GroupResource(), name, errors.New("this namespace may not be deleted"))
	}
	if len(o.DryRun) > 0 {
		return was, len(latest.GetFinalizers()) == 0, nil
	}
	policy, next := propagation(k, latest, o), latest.DeepCopy()
	dropFinalizers(next, metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents)
	switch {
	case policy == metav1.DeletePropagationOrphan:
		for _, d := range s.dependents(was) {
			if err := s.disown(d, was); err != nil {
				return nil, false, err
			}
		}
	case policy == metav1.DeletePropagationForeground && len(s.dependents(was)) > 0:
		addFinalizer(next, metav1.FinalizerDeleteDependents)
	}
	if k == definitionKind && next.GetDeletionTimestamp() == nil {
		if err := s.terminate(next); err != nil {
			return nil, false, err
		}
	}
	grace := s.grace(k, latest, o)
	if len(next.GetFinalizers()) == 0 && grace == 0 && k != namespaceKind {
		e, err := s.remove(k, was, next)
		return e, err == nil, err
	}
	e, err := s.mark(k, was, latest, next, grace)
	if err != nil {
		return nil, false, err
	}
	s.empty(k, e)
	if now := s.raw.Get(was.Key); now == nil || now.UID != was.UID {
		return e, true, nil
	}
	return e, false, nil
}

// grace is how long a deletion waits for a report that what the object represents
// has stopped: that of a Pod on a Node whose kubelet is silent.
func (s *Store) grace(k *kinds.Kind, u *unstructured.Unstructured, o metav1.DeleteOptions) int64 {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	ended := phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
	if k != podKind || name == "" || ended || o.GracePeriodSeconds != nil && *o.GracePeriodSeconds == 0 {
		return 0
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := s.Load(node); err != nil || !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	}) {
		return 0
	}
	if o.GracePeriodSeconds != nil {
		return *o.GracePeriodSeconds
	}
	seconds, _, _ := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds")
	return seconds
}

// mark marks an object as being deleted. What is deleted again can get less grace, and
// another propagation.
func (s *Store) mark(k *kinds.Kind, was *store.Entry, latest, next *unstructured.Unstructured, grace int64) (*store.Entry, error) {
	if had := latest.GetDeletionGracePeriodSeconds(); latest.GetDeletionTimestamp() == nil || had != nil && *had > grace {
		next.SetDeletionTimestamp(new(metav1.NewTime(s.clock.Now().Add(time.Duration(grace) * time.Second))))
		next.SetDeletionGracePeriodSeconds(&grace)
		if g := next.GetGeneration(); g > 0 {
			next.SetGeneration(g + 1)
		}
		if k == namespaceKind {
			_ = unstructured.SetNestedField(next.Object, "Terminating", "status", "phase") // a status is an object
		}
	} else if slices.Equal(latest.GetFinalizers(), next.GetFinalizers()) {
		return was, nil
	}
	return s.raw.Put(was.Key, was, func(version uint64) (*store.Entry, error) { return encode(k, next, version) })
}

// empty deletes what must go before an object that is marked: the contents of
// a namespace, or what it owns if it waits for that.
func (s *Store) empty(k *kinds.Kind, e *store.Entry) {
	if k == namespaceKind {
		s.emptyNamespace(e.Key.Name)
	}
	if k == definitionKind {
		for _, in := range s.instances(e) {
			s.deleteEntry(in, metav1.DeletePropagationBackground)
		}
	}
	if waits(e) {
		s.release(e, metav1.DeletePropagationForeground)
	}
	s.finish(e)
}

func (s *Store) emptyNamespace(name string) {
	s.emptying.Store(name, true)
	defer s.emptying.Delete(name)
	for _, in := range s.raw.Select(func(in *store.Entry) bool { return in.Key.Namespace == name }) {
		s.deleteEntry(in, metav1.DeletePropagationBackground)
	}
}

// release deletes what an object owns, except for objects with another owner that
// stays: those only lose this owner reference. An object on which the owner would wait,
// and that would wait for the owner, no longer blocks its owners, as in a real cluster.
func (s *Store) release(owner *store.Entry, policy metav1.DeletionPropagation) {
	for _, d := range s.dependents(owner) {
		var err error
		if d = s.raw.Get(d.Key); d == nil || !owns(owner, d) { // the deletion of an earlier one has changed it
			continue
		}
		if s.hasOwner(d, owner.UID) {
			err = s.disown(d, owner)
		} else {
			if policy == metav1.DeletePropagationForeground && slices.ContainsFunc(s.dependents(d), waits) {
				err = s.unblock(d)
			}
			s.deleteEntry(d, policy)
		}
		if err != nil {
			s.log.Error(err, "Releasing an object from its owner", "resource", d.Key.Resource.String(), "name", d.Key.Name)
		}
	}
}

// deleteEntry deletes what the server itself decided to delete, unless it is being
// deleted: objects can own each other, and themselves. Without a policy, the finalizers
// of the object define it.
func (s *Store) deleteEntry(e *store.Entry, policy metav1.DeletionPropagation) {
	k, now := s.Kinds().ByGroupResource(e.Key.Resource), s.raw.Get(e.Key)
	if k == nil || now == nil {
		return
	}
	u, err := Parse(now)
	if err != nil || u.GetDeletionTimestamp() != nil {
		return
	}
	if policy == "" {
		policy = cmp.Or(byFinalizers(u), metav1.DeletePropagationBackground)
	}
	_, _, err = s.Delete(k, e.Key.Namespace, e.Key.Name, metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &e.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		s.log.Error(err, "Collecting an object", "resource", e.Key.Resource.String(), "namespace", e.Key.Namespace, "name", e.Key.Name)
	}
}

// remove takes an object out of the store, and what it owned after it.
func (s *Store) remove(k *kinds.Kind, was *store.Entry, last *unstructured.Unstructured) (*store.Entry, error) {
	e, err := s.raw.Delete(was.Key, was, func(version uint64) (*store.Entry, error) { return encode(k, last, version) })
	if err != nil {
		if !errors.Is(err, store.ErrConflict) {
			err = fmt.Errorf("remove %s %s: %w", k.Kind, last.GetName(), err)
		}
		return nil, err
	}
	s.release(was, "")
	for _, uid := range was.Owners {
		for _, owner := range s.raw.Select(func(e *store.Entry) bool { return e.UID == uid }) {
			s.finish(owner)
		}
	}
	if was.Key.Namespace != "" {
		if ns := s.raw.Get(keyOf(namespaceKind, "", was.Key.Namespace)); ns != nil {
			s.finish(ns)
		}
	}
	if definition := s.definitionOf(was); definition != nil {
		s.finish(definition)
	}
	return e, nil
}

// finish does the last step of a deletion that waited for the deletion of other
// objects, if they are deleted.
func (s *Store) finish(e *store.Entry) {
	e = s.raw.Get(e.Key)
	if e == nil {
		return
	}
	k := s.Kinds().ByGroupResource(e.Key.Resource)
	u, err := Parse(e)
	if k == nil || err != nil || u.GetDeletionTimestamp() == nil {
		return
	}
	done := []string{metav1.FinalizerDeleteDependents}
	switch {
	case k == namespaceKind:
		if left := s.raw.Select(func(in *store.Entry) bool { return in.Key.Namespace == e.Key.Name }); len(left) > 0 {
			if _, more := s.emptying.Load(e.Key.Name); !more {
				s.remain(e, left)
			}
			return
		}
	case k == definitionKind:
		if len(s.instances(e)) > 0 {
			return
		}
		done = append(done, crds.CleanupFinalizer)
	default:
		if !waits(e) || s.isBlocked(e) {
			return
		}
	}
	_, err = s.Update(k, e.Key.Namespace, e.Key.Name, Writing{Trusted: true}, func(latest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		if k == namespaceKind {
			unset(latest, "spec", "finalizers")
		}
		dropFinalizers(latest, done...)
		return latest, nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		s.log.Error(err, "Finishing a deletion", "resource", e.Key.Resource.String(), "name", e.Key.Name)
	}
}

// kept reports whether an object without metadata.finalizers must stay though
// it is being deleted.
func kept(k *kinds.Kind, u *unstructured.Unstructured) bool {
	if k != namespaceKind {
		grace := u.GetDeletionGracePeriodSeconds()
		return grace != nil && *grace > 0
	}
	f, _, _ := unstructured.NestedSlice(u.Object, "spec", "finalizers")
	return len(f) > 0
}

// owns reports whether e has an owner reference to o that is valid: an object has no
// owner in another namespace, nor in any if it is in none.
func owns(o, e *store.Entry) bool {
	return slices.Contains(e.Owners, o.UID) && (o.Key.Namespace == "" || o.Key.Namespace == e.Key.Namespace)
}

// leaves reports whether an object is being deleted.
func leaves(e *store.Entry) bool {
	u, err := Parse(e)
	return err == nil && u.GetDeletionTimestamp() != nil
}

// waits reports whether an object is being deleted after what it owns.
func waits(e *store.Entry) bool {
	u, err := Parse(e)
	return err == nil && u.GetDeletionTimestamp() != nil && slices.Contains(u.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// dependents lists what an object owns.
func (s *Store) dependents(owner *store.Entry) []*store.Entry {
	return s.raw.Select(func(e *store.Entry) bool { return owns(owner, e) })
}

// hasOwner reports whether e has an owner, other than one, that is not being deleted
// together with what it owns.
func (s *Store) hasOwner(e *store.Entry, other types.UID) bool {
	return len(s.raw.Select(func(o *store.Entry) bool { return o.UID != other && owns(o, e) && !waits(o) })) > 0
}

// disown removes an owner reference from an object.
func (s *Store) disown(d, owner *store.Entry) error {
	return s.changeOwners(d, func(list []metav1.OwnerReference) []metav1.OwnerReference {
		return slices.DeleteFunc(list, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	})
}

// unblock has no owner of an object wait for it.
func (s *Store) unblock(d *store.Entry) error {
	return s.changeOwners(d, func(list []metav1.OwnerReference) []metav1.OwnerReference {
		for i := range list {
			list[i].BlockOwnerDeletion = new(false)
		}
		return list
	})
}

func (s *Store) changeOwners(d *store.Entry, change func([]metav1.OwnerReference) []metav1.OwnerReference) error {
	k := s.Kinds().ByGroupResource(d.Key.Resource)
	if k == nil { // its definition is deleted, and so it cannot be written
		return nil
	}
	_, err := s.Update(k, d.Key.Namespace, d.Key.Name, Writing{Trusted: true}, func(latest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		latest.SetOwnerReferences(change(latest.GetOwnerReferences()))
		return latest, nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release %s %s from its owner: %w", k.Kind, d.Key.Name, err)
	}
	return nil
}

func checkPreconditions(k *kinds.Kind, latest *unstructured.Unstructured, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != latest.GetUID() {
		return apierrors.NewConflict(asKind(k), latest.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, latest.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != latest.GetResourceVersion() {
		return apierrors.NewConflict(asKind(k), latest.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, latest.GetResourceVersion()))
	}
	return nil
}

// asKind is how API servers name what a precondition is about.
func asKind(k *kinds.Kind) schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Kind}
}

func addFinalizer(u *unstructured.Unstructured, name string) {
	if f := u.GetFinalizers(); !slices.Contains(f, name) {
		u.SetFinalizers(append(f, name))
	}
}

func dropFinalizers(u *unstructured.Unstructured, names ...string) {
	if f := slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return slices.Contains(names, f) }); len(f) > 0 {
		u.SetFinalizers(f)
	} else {
		u.SetFinalizers(nil)
	}
}

// propagation is what happens to what an object owns: what the client requests,
// else what the finalizers of the object define, else the default of the kind.
func propagation(k *kinds.Kind, u *unstructured.Unstructured, o metav1.DeleteOptions) metav1.DeletionPropagation {
	switch {
	case o.PropagationPolicy != nil:
		return *o.PropagationPolicy
	case o.OrphanDependents != nil && *o.OrphanDependents: // old clients send it
		return metav1.DeletePropagationOrphan
	case o.OrphanDependents != nil:
		return metav1.DeletePropagationBackground
	case byFinalizers(u) != "":
		return byFinalizers(u)
	case k.Custom == nil && (k.Resource == "jobs" || k.Resource == "replicationcontrollers"): // since before there was garbage collection
		return metav1.DeletePropagationOrphan
	}
	return metav1.DeletePropagationBackground
}

// byFinalizers is the propagation that the finalizers of an object define, if any.
func byFinalizers(u *unstructured.Unstructured) metav1.DeletionPropagation {
	switch f := u.GetFinalizers(); {
	case slices.Contains(f, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(f, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return ""
}

// isBlocked reports whether another object must be deleted before its owner is.
func (s *Store) isBlocked(owner *store.Entry) bool {
	return slices.ContainsFunc(s.dependents(owner), func(e *store.Entry) bool {
		u, err := Parse(e)
		return e.UID != owner.UID && (err != nil || slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return r.UID == owner.UID && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
		}))
	})
}

// collect deletes an object whose owners all are deleted, or never existed. A reference
// that no garbage collector can follow keeps it: to a kind that is not served, and from
// an object without namespace into one.
func (s *Store) collect(e *store.Entry) {
	if len(e.Owners) == 0 || s.hasOwner(e, "") {
		return
	}
	u, err := Parse(e)
	if err == nil && !slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		k := s.Kinds().ByKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
		return k == nil || k.Namespaced && e.Key.Namespace == ""
	}) {
		s.deleteEntry(e, "")
	}
}

// remain sets in the status of a namespace what it waits for.
func (s *Store) remain(ns *store.Entry, left []*store.Entry) {
	resources, finalizers := map[string]int{}, map[string]int{}
	for _, e := range left {
		resources[e.Key.Resource.Resource+"."+e.Key.Resource.Group]++
		if u, err := Parse(e); err == nil {
			for _, f := range u.GetFinalizers() {
				finalizers[f]++
			}
		}
	}
	count := func(of map[string]int, format string) string {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(of)) {
			parts = append(parts, fmt.Sprintf(format, name, of[name]))
		}
		return strings.Join(parts, ", ")
	}
	type condition = corev1.NamespaceCondition
	want := []condition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Status: corev1.ConditionFalse, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Reason: "SomeResourcesRemain", Message: "Some resources are remaining: " + count(resources, "%s has %d resource instances")},
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Reason: "SomeFinalizersRemain", Message: "Some content in the namespace has finalizers remaining: " + count(finalizers, "%s in %d resource instances")},
	}
	if len(finalizers) == 0 {
		want[4].Status, want[4].Reason, want[4].Message = corev1.ConditionFalse, "ContentHasNoFinalizers", "All content-preserving finalizers finished"
	}
	err := Modify(s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Key.Name}}, func(n *corev1.Namespace) error {
		for i := range want {
			want[i].LastTransitionTime = metav1.NewTime(s.clock.Now())
			for _, c := range n.Status.Conditions {
				if c.Type == want[i].Type && c.Status == want[i].Status {
					want[i].LastTransitionTime = c.LastTransitionTime
				}
			}
		}
		n.Status.Conditions = want
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		s.log.Error(err, "Saying what a namespace waits for", "name", ns.Key.Name)
	}
}
