// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/patching"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// receive reads an object of another kind than the resource's.
func receive(r *request, gvk schema.GroupVersionKind, out runtime.Object) error {
	if err := readable(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	body, err := r.body()
	if err != nil {
		return err
	}
	u, _, err := objects.Decode(gvk, body, metav1.FieldValidationIgnore)
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}

// evict removes a Pod unless a disruption budget forbids it.
func (s *Server) evict(w http.ResponseWriter, r *request) error {
	if r.verb != "create" {
		return apierrors.NewMethodNotSupported(r.kind.GroupResource(), r.verb)
	}
	var eviction policyv1.Eviction
	if err := receive(r, policyv1.SchemeGroupVersion.WithKind("Eviction"), &eviction); err != nil {
		return err
	}
	if eviction.Name != "" && eviction.Name != r.name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	var o metav1.DeleteOptions
	if eviction.DeleteOptions != nil {
		o = *eviction.DeleteOptions
	}
	if err := s.objects.Evict(r.namespace, r.name, o); err != nil {
		return err
	}
	return respond(w, http.StatusCreated, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	})
}

// The limits and the default of the requested validity of a token.
const (
	shortestToken = 10 * time.Minute
	usualToken    = time.Hour
	longestToken  = 1 << 32 * time.Second
)

// token creates a token for a service account.
func (s *Server) token(w http.ResponseWriter, r *request) error {
	if r.verb != "create" {
		return apierrors.NewMethodNotSupported(r.kind.GroupResource(), r.verb)
	}
	var t authenticationv1.TokenRequest
	gvk := authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")
	if err := receive(r, gvk, &t); err != nil {
		return err
	}
	valid := usualToken
	if t.Spec.ExpirationSeconds != nil {
		valid = time.Duration(*t.Spec.ExpirationSeconds) * time.Second
	}
	if valid < shortestToken || valid > longestToken {
		return apierrors.NewBadRequest(fmt.Sprintf("spec.expirationSeconds: Invalid value: %d: may not specify a duration less than 10 minutes", int64(valid.Seconds())))
	}
	if err := s.authz.MayIssue(r.user, r.namespace, r.name, t.Spec.BoundObjectRef); err != nil {
		return err
	}
	text, until, err := s.authn.Issue(r.namespace, r.name, t.Spec.BoundObjectRef, t.Spec.Audiences, valid)
	if err != nil {
		return err
	}
	t.SetGroupVersionKind(gvk)
	t.Namespace, t.Name, t.CreationTimestamp = r.namespace, r.name, metav1.NewTime(s.clock.Now())
	t.Spec.ExpirationSeconds = new(int64(valid.Seconds()))
	t.Status = authenticationv1.TokenRequestStatus{Token: text, ExpirationTimestamp: metav1.NewTime(until)}
	return respond(w, http.StatusCreated, &t)
}

// scale reads or writes the number of replicas alone.
func (s *Server) scale(w http.ResponseWriter, r *request) error {
	e, err := s.objects.Entry(r.kind, r.namespace, r.name)
	if err != nil {
		return err
	}
	switch r.verb {
	case "get":
	case "update", "patch":
		if e, err = s.setScale(r); err != nil {
			return err
		}
	default:
		return apierrors.NewMethodNotSupported(r.kind.GroupResource(), r.verb)
	}
	u, err := objects.Read(r.kind, e)
	if err != nil {
		return err
	}
	sc, err := scaleOf(r.kind, u)
	if err != nil {
		return err
	}
	return respond(w, http.StatusOK, sc)
}

func (s *Server) setScale(r *request) (*store.Entry, error) {
	writing, err := s.writing(r)
	if err != nil {
		return nil, err
	}
	writing.Sub = "" // replicas are part of the spec
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	change := func(latest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		wanted, err := wantedScale(r, latest, body)
		if err != nil {
			return nil, err
		}
		if wanted.Spec.Replicas < 0 {
			return nil, apierrors.NewBadRequest("spec.replicas: Invalid value: must be greater than or equal to 0")
		}
		if v := wanted.ResourceVersion; v != "" && v != latest.GetResourceVersion() {
			latest.SetResourceVersion(v) // causes a conflict
		}
		return latest, unstructured.SetNestedField(latest.Object, int64(wanted.Spec.Replicas), scalePaths(r.kind).replicas...)
	}
	return s.objects.Update(r.kind, r.namespace, r.name, writing, change)
}

var scaleGVK = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// wantedScale is the scale that a client sent, or the result of its patch of the
// present one.
func wantedScale(r *request, latest *unstructured.Unstructured, body []byte) (*autoscalingv1.Scale, error) {
	var wanted autoscalingv1.Scale
	if r.verb == "patch" {
		now, err := scaleOf(r.kind, latest)
		if err != nil {
			return nil, err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(now)
		if err != nil {
			return nil, err
		}
		asKind := &kinds.Kind{GroupVersionKind: scaleGVK, Resource: r.kind.Resource}
		unversioned := &unstructured.Unstructured{Object: content}
		unversioned.SetResourceVersion("") // so that only a patch that names a version can conflict
		next, err := patching.Patch(asKind, unversioned, types.PatchType(r.Header.Get("Content-Type")), body)
		if err != nil {
			return nil, err
		}
		return &wanted, runtime.DefaultUnstructuredConverter.FromUnstructured(next.Object, &wanted)
	}
	u, _, err := objects.Decode(scaleGVK, body, metav1.FieldValidationIgnore)
	if err != nil {
		return nil, err
	}
	return &wanted, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &wanted)
}

// scaled is where a kind has what a Scale shows. The selector is a text, or
// that of labels.
type scaled struct{ replicas, now, selector []string }

func scalePaths(k *kinds.Kind) scaled {
	if k.Custom == nil {
		return scaled{[]string{"spec", "replicas"}, []string{"status", "replicas"}, []string{"spec", "selector"}}
	}
	path := func(text string) []string { return strings.Split(strings.TrimPrefix(text, "."), ".") }
	sc := k.Custom.Scale
	paths := scaled{replicas: path(sc.SpecReplicasPath), now: path(sc.StatusReplicasPath)}
	if sc.LabelSelectorPath != nil {
		paths.selector = path(*sc.LabelSelectorPath)
	}
	return paths
}

func scaleOf(k *kinds.Kind, u *unstructured.Unstructured) (*autoscalingv1.Scale, error) {
	paths := scalePaths(k)
	wanted, found, err := unstructured.NestedInt64(u.Object, paths.replicas...)
	if err != nil {
		return nil, fmt.Errorf("read scale of %s: %w", u.GetName(), err)
	}
	if !found && k.Custom != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", k.Custom.Scale.SpecReplicasPath))
	}
	now, _, err := unstructured.NestedInt64(u.Object, paths.now...)
	if err != nil {
		return nil, fmt.Errorf("read scale of %s: %w", u.GetName(), err)
	}
	sc := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), CreationTimestamp: u.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: int32(wanted)},
		Status: autoscalingv1.ScaleStatus{Replicas: int32(now)},
	}
	sc.SetGroupVersionKind(scaleGVK)
	if paths.selector == nil {
		return sc, nil
	}
	switch selector, _, _ := unstructured.NestedFieldNoCopy(u.Object, paths.selector...); selector := selector.(type) {
	case string:
		sc.Status.Selector = selector
	case map[string]any:
		var s metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, &s); err != nil {
			return nil, fmt.Errorf("read selector of %s: %w", u.GetName(), err)
		}
		sc.Status.Selector = metav1.FormatLabelSelector(&s)
	}
	return sc, nil
}
