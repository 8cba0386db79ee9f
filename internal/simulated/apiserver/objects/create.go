// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/defaulting"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/patching"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

const maxGeneratedPrefix = 58 // as API servers do: a name of 63 with 5 random

// generations bounds how often another name is generated for one that is
// taken.
const generations = 8

// Create stores a new object.
func (s *Store) Create(k *kinds.Kind, namespace string, u *unstructured.Unstructured, w Writing) (e *store.Entry, err error) {
	generated := u.GetName() == "" && u.GetGenerateName() != ""
	for range generations {
		e, err = s.createOnce(k, namespace, u.DeepCopy(), w)
		if !generated || !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return e, err
}

func (s *Store) createOnce(k *kinds.Kind, namespace string, u *unstructured.Unstructured, w Writing) (*store.Entry, error) {
	if err := s.prepareCreate(k, namespace, u, w); err != nil {
		return nil, err
	}
	if w.Manager != "" {
		tracked, err := patching.Track(k, "", nil, u, w.Manager)
		if err != nil {
			return nil, err
		}
		u = tracked
	}
	return s.insert(k, u, w)
}

// insert stores a prepared object.
func (s *Store) insert(k *kinds.Kind, u *unstructured.Unstructured, w Writing) (*store.Entry, error) {
	if k == namespaceKind {
		_ = unstructured.SetNestedStringSlice(u.Object, []string{"kubernetes"}, "spec", "finalizers") // spec is an object or absent
	}
	selectOwn(k, u)
	key := keyOf(k, u.GetNamespace(), u.GetName())
	exists := apierrors.NewAlreadyExists(k.GroupResource(), u.GetName())
	if s.raw.Get(key) != nil {
		return nil, exists
	}
	e, err := s.allocated(k, nil, u, func() (*store.Entry, error) {
		if w.DryRun {
			return dryRun(k, key, u, nil)
		}
		e, err := s.raw.Put(key, nil, func(version uint64) (*store.Entry, error) { return encode(k, u, version) })
		if err != nil {
			return nil, stored(k, u, err)
		}
		return e, nil
	})
	if errors.Is(err, store.ErrConflict) {
		return nil, exists
	}
	if err != nil || w.DryRun {
		return e, err
	}
	switch k {
	case namespaceKind:
		s.CreateDefaults(u.GetName())
	case definitionKind:
		s.accept(u.GetName())
	}
	s.collect(e)
	if ns := s.raw.Get(keyOf(namespaceKind, "", key.Namespace)); ns != nil && leaves(ns) { // its deletion started meanwhile
		s.deleteEntry(e, metav1.DeletePropagationBackground)
	}
	return e, nil
}

// stored names the object that was not stored. A cluster that is full is an error that its
// controllers report.
func stored(k *kinds.Kind, u *unstructured.Unstructured, err error) error {
	err = fmt.Errorf("store %s %s: %w", k.Kind, u.GetName(), err)
	if errors.Is(err, store.ErrFull) {
		return apierrors.NewInternalError(err)
	}
	return err
}

// dryRun returns the entry that a write would have created.
func dryRun(k *kinds.Kind, key store.Key, u *unstructured.Unstructured, was *store.Entry) (*store.Entry, error) {
	version := u.GetResourceVersion()
	e, err := encode(k, u, 0)
	if err != nil {
		return nil, err
	}
	e.Key = key
	if was != nil {
		e.Version = was.Version
	}
	u.SetResourceVersion(version)
	e.Raw, err = storedForm(k, u)
	return e, err
}

func (s *Store) prepareCreate(k *kinds.Kind, namespace string, u *unstructured.Unstructured, w Writing) error {
	if u.GetResourceVersion() != "" {
		if !w.Trusted {
			return errors.New("resourceVersion should not be set on objects to be created") // a 500, as API servers have it
		}
		u.SetResourceVersion("")
	}
	if k.Terminating {
		return terminating(k)
	}
	if err := s.placeNew(k, namespace, u); err != nil {
		return err
	}
	u.SetUID(uuid.NewUUID())
	u.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
	u.SetSelfLink("")
	ownOnce(u)
	unset(u, "metadata", "deletionTimestamp")
	unset(u, "metadata", "deletionGracePeriodSeconds")
	if k.Generation {
		u.SetGeneration(1)
	} else {
		unset(u, "metadata", "generation")
	}
	if k.Status && !w.Trusted {
		resetNewStatus(k, u)
	}
	if err := settle(k, nil, u, w); err != nil {
		return err
	}
	setDefaults(k, nil, u)
	if k == podKind {
		tolerate(u)
	}
	return validate(k, nil, u, w)
}

// placeNew checks and settles name and namespace.
func (s *Store) placeNew(k *kinds.Kind, namespace string, u *unstructured.Unstructured) error {
	if u.GetName() == "" && u.GetGenerateName() == "" && k.Group == "" && k.Resource == "limitranges" {
		u.SetName(string(uuid.NewUUID())) // the one kind whose name may be absent
	}
	if u.GetName() == "" {
		prefix := u.GetGenerateName()
		if prefix == "" {
			return invalid(k, "", field.Required(field.NewPath("metadata", "name"), "name or generateName is required"))
		}
		u.SetName(prefix[:min(len(prefix), maxGeneratedPrefix)] + rand.String(5))
	}
	if !k.Namespaced {
		if u.GetNamespace() != "" {
			return invalid(k, u.GetName(), field.Forbidden(field.NewPath("metadata", "namespace"), "not allowed on this type"))
		}
		return nil
	}
	if ns := u.GetNamespace(); ns != "" && ns != namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	u.SetNamespace(namespace)
	ns, err := s.Entry(namespaceKind, "", namespace)
	if err != nil {
		return err
	}
	if leaves(ns) {
		return apierrors.NewForbidden(k.GroupResource(), u.GetName(),
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	}
	return nil
}

// maxWorkName is how long the names of Jobs can be, which are labels of their Pods, and
// those of CronJobs, to which a Job adds a number.
var maxWorkName = map[string]int{"jobs": utilvalidation.DNS1123LabelMaxLength, "cronjobs": utilvalidation.DNS1123LabelMaxLength - 11}

func tooLong(name string, limit int) []string {
	if len(name) > limit {
		return []string{utilvalidation.MaxLenError(limit)}
	}
	return nil
}

// nameOf is the form of a name. Those of RBAC objects and of disruption budgets only have
// to fit into a path, as in kubeadm:get-nodes.
func nameOf(k *kinds.Kind) validation.ValidateNameFunc {
	switch {
	case k.Group == "rbac.authorization.k8s.io" || k.Group == "policy":
		return path.ValidatePathSegmentName
	case k == namespaceKind:
		return validation.ValidateNamespaceName
	case k.Group == "" && k.Resource == "services", k.Group == "apps" && k.Resource == "statefulsets":
		return validation.NameIsDNSLabel
	case k.Group == "batch":
		return func(name string, prefix bool) []string {
			return append(validation.NameIsDNSSubdomain(name, prefix), tooLong(name, maxWorkName[k.Resource])...)
		}
	}
	return validation.NameIsDNSSubdomain
}

// resetNewStatus drops the status a client sent where the kind does not take
// one at creation; what is left is that of an empty object. Kubelets register nodes with theirs.
func resetNewStatus(k *kinds.Kind, u *unstructured.Unstructured) {
	if k.Custom != nil || k.Resource != "nodes" && k.Resource != "persistentvolumes" {
		delete(u.Object, "status")
	}
	if k.Custom == nil && u.Object["status"] == nil {
		if obj, err := k.New(); err == nil {
			if content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err == nil && content["status"] != nil {
				u.Object["status"] = content["status"]
			}
		}
	}
}

// foldStringData moves the write-only stringData of a Secret into its data.
func foldStringData(u *unstructured.Unstructured) {
	plain, ok, _ := unstructured.NestedMap(u.Object, "stringData")
	if !ok {
		return
	}
	data, _, _ := unstructured.NestedMap(u.Object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range plain {
		if text, ok := value.(string); ok {
			data[key] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	u.Object["data"] = data
	delete(u.Object, "stringData")
}

// tolerate adds the toleration with which a Pod stays on a Node that is not ready
// for five minutes, unless it has its own.
func tolerate(u *unstructured.Unstructured) {
	list, _, _ := unstructured.NestedSlice(u.Object, "spec", "tolerations")
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(list, func(v any) bool {
			t, _ := v.(map[string]any)
			effect, _ := t["effect"].(string)
			name, _ := t["key"].(string)
			return (effect == "" || effect == string(corev1.TaintEffectNoExecute)) && (name == "" || name == key)
		}) {
			list = append(list, map[string]any{"key": key, "operator": "Exists", "effect": string(corev1.TaintEffectNoExecute), "tolerationSeconds": int64(300)})
		}
	}
	_ = unstructured.SetNestedSlice(u.Object, list, "spec", "tolerations") // only fails where spec is no object, which decoding excludes
}

// selectOwn gives a Job the selector and the labels by which it finds its own
// Pods, unless it has them from its user.
func selectOwn(k *kinds.Kind, u *unstructured.Unstructured) {
	if by, _, _ := unstructured.NestedBool(u.Object, "spec", "manualSelector"); k.Custom != nil || k.Resource != "jobs" || by {
		return
	}
	uid := string(u.GetUID())
	labels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "template", "metadata", "labels")
	if labels == nil {
		labels = map[string]string{}
	}
	for _, prefix := range []string{"", "batch.kubernetes.io/"} {
		labels[prefix+"controller-uid"], labels[prefix+"job-name"] = uid, u.GetName()
	}
	// Both only fail where a parent is no object, which decoding excludes.
	_ = unstructured.SetNestedStringMap(u.Object, labels, "spec", "template", "metadata", "labels")
	_ = unstructured.SetNestedStringMap(u.Object, map[string]string{"batch.kubernetes.io/controller-uid": uid}, "spec", "selector", "matchLabels")
	if len(u.GetLabels()) == 0 {
		u.SetLabels(labels)
	}
}

// ownOnce drops owner references that are repeated.
func ownOnce(u *unstructured.Unstructured) {
	seen := map[string]bool{}
	once := slices.DeleteFunc(u.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		repeated := seen[o.String()]
		seen[o.String()] = true
		return repeated
	})
	if len(once) < len(u.GetOwnerReferences()) {
		u.SetOwnerReferences(once)
	}
}

func unset(u *unstructured.Unstructured, path ...string) {
	unstructured.RemoveNestedField(u.Object, path...)
}

func invalid(k *kinds.Kind, name string, errs ...*field.Error) error {
	return apierrors.NewInvalid(k.GroupKind(), name, errs)
}

var serviceKind = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("Service"))

// allocated sets the address and ports of a Service before it is written, one after
// another: two concurrent creations see each other's. was is nil at creation.
func (s *Store) allocated(k *kinds.Kind, was, u *unstructured.Unstructured, write func() (*store.Entry, error)) (*store.Entry, error) {
	if k == serviceKind {
		s.allocating.Lock()
		defer s.allocating.Unlock()
		if err := s.allocate(was, u); err != nil {
			return nil, err
		}
	}
	return write()
}

func (s *Store) allocate(was, u *unstructured.Unstructured) error {
	var svc corev1.Service
	if err := into(u, &svc); err != nil {
		return err
	}
	before, text := "", ""
	if was != nil {
		before, _, _ = unstructured.NestedString(was.Object, "spec", "clusterIP")
	}
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}}
	if s.Load(cidr) == nil && len(cidr.Spec.CIDRs) > 0 { // there is none in a cluster of an earlier version
		text = cidr.Spec.CIDRs[0]
	}
	var others []corev1.Service
	entries, _ := s.raw.List(serviceKind.GroupResource(), "")
	for _, e := range entries {
		var other corev1.Service
		if (e.Key.Namespace != svc.Namespace || e.Key.Name != svc.Name) && decodeInto(serviceKind, e, &other) == nil {
			others = append(others, other)
		}
	}
	if err := defaulting.AllocateAddresses(&svc, before, defaulting.ServiceRange(text), others); err != nil {
		return invalid(serviceKind, svc.Name, err)
	}
	full, _, err := s.FromTyped(&svc)
	if err == nil {
		u.Object["spec"] = full.Object["spec"]
	}
	return err
}
