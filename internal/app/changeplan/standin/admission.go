// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capstan-dev/capstan/internal/admission/core"
	"github.com/capstan-dev/capstan/internal/admission/kubeadm"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/internal/sim"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/manifests"
)

// Admission defaults and validates what controllers write, by the definitions of our kinds
// and of those of other providers, and by our webhooks. Webhooks of other providers are
// not called. Clusters and their classes are written by the user: the dry run of the
// change has admitted them. ResourceQuotas among the objects, which are those at first,
// limit the number of objects.
func Admission(definitions []*apiextensionsv1.CustomResourceDefinition, objects []client.Object) sim.Admit {
	a := &admission{definitions: definitions, kinds: map[schema.GroupVersionKind]*crds.Version{}}
	for _, obj := range objects {
		if q, is := obj.(*corev1.ResourceQuota); is {
			a.quotas = append(a.quotas, q)
		}
	}
	if len(a.quotas) > 0 {
		a.first = objects
	}
	return a.admit
}

type admission struct {
	definitions []*apiextensionsv1.CustomResourceDefinition // of other providers
	kinds       map[schema.GroupVersionKind]*crds.Version   // that were used
	quotas      []*corev1.ResourceQuota
	first       []client.Object // at first, for quotas
}

// installed are the stored versions of our kinds.
var installed = sync.OnceValues(func() (map[schema.GroupVersionKind]*crds.Version, error) {
	all, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	kinds := map[schema.GroupVersionKind]*crds.Version{}
	for _, crd := range all {
		v, err := storedVersion(crd)
		if err != nil {
			return nil, err
		}
		kinds[v.GVK()] = v
	}
	return kinds, nil
})

func storedVersion(crd *apiextensionsv1.CustomResourceDefinition) (*crds.Version, error) {
	crd = crd.DeepCopy()
	crds.Accept(crd, nil, metav1.Time{})
	raw, err := json.Marshal(crd)
	if err != nil {
		return nil, err
	}
	d, _, err := crds.Read(raw)
	if err != nil {
		return nil, err
	}
	for _, v := range d.Versions {
		if v.Storage {
			return v, nil
		}
	}
	return nil, fmt.Errorf("CustomResourceDefinition %s has no stored version", crd.Name)
}

// ourWebhooks are by kind. They need no reader: those that need one are for subresources.
var ourWebhooks = sync.OnceValue(func() map[schema.GroupVersionKind][]webhook.Webhook {
	all := map[schema.GroupVersionKind][]webhook.Webhook{}
	for _, w := range append(core.Webhooks(), kubeadm.Webhooks(nil)...) {
		if !strings.Contains(w.Resource, "/") {
			all[w.Kind] = append(all[w.Kind], w)
		}
	}
	return all
})

// version returns the definition of a kind; nil for a kind that has none.
func (a *admission) version(gvk schema.GroupVersionKind) (*crds.Version, error) {
	ours, err := installed()
	if err != nil || ours[gvk] != nil {
		return ours[gvk], err
	}
	if v, known := a.kinds[gvk]; known {
		return v, nil
	}
	for _, crd := range a.definitions {
		if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind {
			continue
		}
		v, err := storedVersion(crd)
		if err != nil {
			return nil, err
		}
		if v.GVK() != gvk {
			v = nil
		}
		a.kinds[gvk] = v
		return v, nil
	}
	return nil, nil
}

// admit implements sim.Admit.
func (a *admission) admit(old, obj *unstructured.Unstructured, stored int) error {
	gvk := obj.GroupVersionKind()
	v, err := a.version(gvk)
	if v == nil || err != nil {
		return err
	}
	if _, err := v.Fit(obj); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if err := a.webhooks(gvk, old, obj, true); err != nil {
		return err
	}
	errs, err := v.Validate("", old, obj)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(gvk.GroupKind(), obj.GetName(), errs)
	}
	if err := a.webhooks(gvk, old, obj, false); err != nil || old != nil {
		return err
	}
	return a.within(v, obj, stored)
}

// within refuses a new object that exceeds a quota, as an API server does. Of a quota, what
// is used is what its status says, and what was created and deleted since.
func (a *admission) within(v *crds.Version, obj *unstructured.Unstructured, stored int) error {
	name := corev1.ResourceName("count/" + v.Resource().String())
	for _, q := range a.quotas {
		hard, limited := q.Status.Hard[name]
		if !limited || q.Namespace != obj.GetNamespace() {
			continue
		}
		first, err := a.count(v.GVK(), q.Namespace)
		if err != nil {
			return err
		}
		used := q.Status.Used[name]
		if now := used.Value() + int64(stored-first); now >= hard.Value() {
			return apierrors.NewForbidden(v.Resource(), obj.GetName(), fmt.Errorf("exceeded quota: %s, requested: %s=1, used: %s=%d, limited: %s=%d", q.Name, name, name, now, name, hard.Value()))
		}
	}
	return nil
}

// count is the number of objects of a kind in a namespace at first.
func (a *admission) count(gvk schema.GroupVersionKind, namespace string) (n int, _ error) {
	scheme, err := controllers.Scheme()
	if err != nil {
		return 0, err
	}
	for _, obj := range a.first {
		if of, err := apiutil.GVKForObject(obj, scheme); err == nil && of == gvk && obj.GetNamespace() == namespace {
			n++
		}
	}
	return n, nil
}

// webhooks calls those of a kind that change objects, or those that only validate them.
func (a *admission) webhooks(gvk schema.GroupVersionKind, old, obj *unstructured.Unstructured, mutating bool) error {
	var request *admissionv1.AdmissionRequest // of a kind that has such webhooks
	for _, w := range ourWebhooks()[gvk] {
		if w.Mutating != mutating {
			continue
		}
		if request == nil {
			var err error
			if request, err = requestOf(old, obj); err != nil {
				return err
			}
		}
		answer := w.Admit(context.Background(), request)
		if !answer.Allowed {
			return &apierrors.StatusError{ErrStatus: *answer.Result}
		}
		if len(answer.Patch) == 0 {
			continue
		}
		patch, err := jsonpatch.DecodePatch(answer.Patch)
		if err != nil {
			return err
		}
		if request.Object.Raw, err = patch.Apply(request.Object.Raw); err != nil {
			return err
		}
		if err := runtime.DecodeInto(unstructured.UnstructuredJSONScheme, request.Object.Raw, obj); err != nil {
			return err
		}
	}
	return nil
}

// requestOf returns the request of a write; old is nil for a new object.
func requestOf(old, obj *unstructured.Unstructured) (*admissionv1.AdmissionRequest, error) {
	r := &admissionv1.AdmissionRequest{Namespace: obj.GetNamespace(), Name: obj.GetName(), Operation: admissionv1.Create}
	var err error
	if r.Object.Raw, err = obj.MarshalJSON(); err != nil || old == nil {
		return r, err
	}
	r.Operation = admissionv1.Update
	r.OldObject.Raw, err = old.MarshalJSON()
	return r, err
}
