// SPDX-License-Identifier: Apache-2.0

// Package webhook turns functions that default or validate one kind into admission
// webhooks: their registration with the API server, and the HTTP handler that
// answers it.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	kjson "sigs.k8s.io/json"
)

// Webhook is one admission webhook. Default, Mutate, Check, Validate, Guard and
// Gate create it.
type Webhook struct {
	// Target defines the requests for which it is called.
	Target
	// Mutating is whether it may change the object.
	Mutating bool

	gates bool // and changes nothing
	admit func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

// Target is what a webhook is called for.
type Target struct {
	// Kind is the kind, at the only version for which it is called.
	Kind schema.GroupVersionKind
	// Resource is the plural, and the subresource after a slash, if any. AnyResource
	// means all kinds of the group at all versions; Kind.Kind then only names the
	// webhook.
	Resource string
	// Purpose distinguishes a webhook from another of the same kind in names and paths;
	// "" is the one that defaults or validates the kind.
	Purpose string
	// Writes is whether it writes other objects, unless the request is a dry run.
	Writes bool
	// Operations are CREATE, UPDATE or both; none means both. Guard sets DELETE.
	Operations []admissionregistrationv1.OperationType
	// Scope is NamespacedScope by default.
	Scope admissionregistrationv1.ScopeType
	// When are CEL expressions, by name, that must all be true for a call. An
	// API server evaluates them itself, so a write that needs no call costs
	// none.
	When map[string]string
}

// AnyResource is the Resource of a webhook for all kinds of a group.
const AnyResource = "*"

// SpecChanged is true for creations and for updates that change spec: not for
// finalizers, owners, labels and annotations.
const SpecChanged = "oldObject == null || object.?spec != oldObject.?spec"

// Review is what a webhook decides on.
type Review[T any] struct {
	// Object is the object that will be stored; nil for a deletion.
	Object *T
	// Old is what is stored; nil on creation.
	Old *T
	// DryRun is whether nothing will be stored.
	DryRun bool
	// User is the name of the user who sent the request.
	User string
	// Namespace and Name are those of the request: the object of a subresource may
	// lack them.
	Namespace, Name string
}

// Result is the result of a validating webhook.
type Result struct {
	// Errors refuse the object.
	Errors field.ErrorList
	// Warnings are shown to the user.
	Warnings []string
	// Forbidden refuses the whole operation, for any values of the fields.
	Forbidden error
}

// Default creates a webhook that sets what the user omitted. old is nil on
// creation.
func Default[T any](target Target, set func(obj, old *T)) Webhook {
	return Mutate(target, func(_ context.Context, r Review[T]) (Result, error) {
		set(r.Object, r.Old)
		return Result{}, nil
	})
}

// Mutate creates a webhook that changes the object of a review, or returns why it
// cannot.
func Mutate[T any](target Target, change func(context.Context, Review[T]) (Result, error)) Webhook {
	return Webhook{Target: target, Mutating: true, admit: func(ctx context.Context, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		review, err := decode[T](req)
		before := new(T)
		if err != nil || unmarshal(req.Object.Raw, before) != nil {
			// The schema, which is next, names the field that has the wrong type.
			return &admissionv1.AdmissionResponse{Allowed: true}
		}
		verdict, err := change(ctx, review)
		response := target.answer(req, verdict, err)
		if !response.Allowed || reflect.DeepEqual(before, review.Object) {
			return response
		}
		if response.Patch, err = difference(before, review.Object); err != nil {
			return refuse(apierrors.NewInternalError(fmt.Errorf("default %s: %w", target.Kind.Kind, err)))
		}
		response.PatchType = new(admissionv1.PatchTypeJSONPatch)
		return response
	}}
}

// Validate creates a webhook that admits an object or returns why not.
func Validate[T any](target Target, check func(context.Context, Review[T]) (Result, error)) Webhook {
	return Webhook{Target: target, admit: func(ctx context.Context, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		review, err := decode[T](req)
		if err != nil {
			return refuse(apierrors.NewBadRequest(err.Error()))
		}
		verdict, err := check(ctx, review)
		return target.answer(req, verdict, err)
	}}
}

// Guard creates a webhook that admits the deletion of an object or returns why not. The
// object is the Old one of the review, which has no other.
func Guard[T any](target Target, check func(context.Context, Review[T]) (Result, error)) Webhook {
	target.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	return Validate(target, check)
}

// answer converts a Result to the response for the API server.
func (t Target) answer(req *admissionv1.AdmissionRequest, v Result, err error) *admissionv1.AdmissionResponse {
	switch {
	case err != nil:
		return refuse(apierrors.NewInternalError(fmt.Errorf("admit %s %s/%s: %w", t.Kind.Kind, req.Namespace, req.Name, err)))
	case v.Forbidden != nil:
		group, _, _ := strings.Cut(t.Resource, "/")
		return refuse(apierrors.NewForbidden(schema.GroupResource{Group: t.Kind.Group, Resource: group}, req.Name, v.Forbidden))
	case len(v.Errors) > 0:
		return refuse(apierrors.NewInvalid(t.Kind.GroupKind(), req.Name, v.Errors))
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: v.Warnings}
}

// Gate creates a webhook that refuses objects that no controller here reconciles.
// It is called before defaulting and before the validation of the schema: what is
// refused in any case need not be valid first.
func Gate[T any](target Target, check func(obj, old *T) field.ErrorList) Webhook {
	w := Mutate(target, func(_ context.Context, r Review[T]) (Result, error) {
		return Result{Errors: check(r.Object, r.Old)}, nil
	})
	w.gates = true
	return w
}

// Check creates a validating webhook from a pure check. old is nil on creation.
func Check[T any](target Target, check func(obj, old *T) field.ErrorList) Webhook {
	return Validate(target, func(_ context.Context, r Review[T]) (Result, error) {
		return Result{Errors: check(r.Object, r.Old)}, nil
	})
}

// Name is the webhook's name in its configuration.
func (w Webhook) Name() string {
	return w.verb("gate.", "default.", "deletion.", "validation.") + strings.ToLower(strings.ReplaceAll(w.plural(), "/", "-")) + "." + w.Kind.Group
}

// verb selects what the webhook does, after its purpose.
func (w Webhook) verb(gate, mutate, guard, validate string) string {
	verb := validate
	switch {
	case w.gates:
		verb = gate
	case w.Mutating:
		verb = mutate
	case w.guards():
		verb = guard
	}
	if w.Purpose != "" {
		verb = w.Purpose + "-" + verb
	}
	return verb
}

// Path is where the webhook is served.
func (w Webhook) Path() string {
	verb := w.verb("gate", "mutate", "guard", "validate")
	parts := []string{verb, strings.ReplaceAll(w.Kind.Group, ".", "-"), w.Kind.Version, strings.ReplaceAll(w.plural(), "/", "-")}
	return "/" + strings.ToLower(strings.Join(parts, "-"))
}

// guards reports whether it is called for deletions, and nothing else is.
func (w Webhook) guards() bool {
	return slices.Contains(w.Operations, admissionregistrationv1.Delete)
}

// plural is the resource with the kind in place of its plural: names and paths are
// by kind.
func (w Webhook) plural() string {
	_, sub, ok := strings.Cut(w.Resource, "/")
	if !ok {
		return w.Kind.Kind
	}
	return w.Kind.Kind + "/" + sub
}

// Handler serves webhooks, each on its path.
func Handler(all []Webhook) *http.ServeMux {
	mux := http.NewServeMux()
	for _, w := range all {
		mux.Handle("POST "+w.Path(), w)
	}
	return mux
}

// maxReview is more than any review can be: an object of the size that etcd
// takes, twice, in JSON with managed fields.
const maxReview = 16 << 20

// ServeHTTP answers one AdmissionReview.
func (w Webhook) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	review := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(http.MaxBytesReader(out, in.Body, maxReview)).Decode(review); err != nil {
		http.Error(out, "decode the AdmissionReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	if review.Request == nil || review.GroupVersionKind() != admissionv1.SchemeGroupVersion.WithKind("AdmissionReview") {
		http.Error(out, "the body is not an AdmissionReview of admission.k8s.io/v1 with a request", http.StatusBadRequest)
		return
	}
	review.Response = w.Admit(in.Context(), review.Request)
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	// If this fails, there is no client left: the API server closed the connection.
	_ = json.NewEncoder(out).Encode(review)
}

// operations are those that it is called for.
func (w Webhook) operations() []admissionregistrationv1.OperationType {
	if len(w.Operations) > 0 {
		return w.Operations
	}
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
}

// Admit decides on one request.
func (w Webhook) Admit(ctx context.Context, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	response := w.malformed(req)
	if response == nil {
		response = w.admit(ctx, req)
	}
	response.UID = req.UID
	return response
}

// malformed refuses requests that no API server sends to this webhook, so that the
// functions behind it can rely on their input: on an object, and on an old one for
// each update. It returns nil for a well-formed request.
func (w Webhook) malformed(req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	created, updated := string(admissionregistrationv1.Create), string(admissionregistrationv1.Update)
	has, had := present(req.Object.Raw), present(req.OldObject.Raw)
	operation := string(req.Operation)
	if operation == "" {
		operation = created
		if had {
			operation = updated
		}
	}
	resource, sub, _ := strings.Cut(w.Resource, "/")
	why := ""
	switch {
	case !slices.Contains(w.operations(), admissionregistrationv1.OperationType(operation)):
		why = "is about the operation " + operation
	case w.guards() && has:
		why = "of a deletion has an object"
	case w.guards() && !had:
		why = "of a deletion has no oldObject"
	case !has && !w.guards():
		why = "has no object"
	case operation == updated && !had:
		why = "of an update has no oldObject"
	case operation == created && had:
		why = "of a creation has an oldObject"
	case w.Resource == AnyResource && (req.Resource.Resource == "" || req.Resource.Group == w.Kind.Group) && req.SubResource == "":
		return nil
	case req.Resource.Resource != "" && (req.Resource.Group != w.Kind.Group || req.Resource.Resource != resource || req.SubResource != sub):
		why = fmt.Sprintf("is about %s.%s", strings.TrimSuffix(req.Resource.Resource+"/"+req.SubResource, "/"), req.Resource.Group)
	case sub == "" && req.Kind.Kind != "" && req.Kind.Kind != w.Kind.Kind:
		why = "is about the kind " + req.Kind.Kind
	default:
		return nil
	}
	return refuse(apierrors.NewBadRequest(fmt.Sprintf("this AdmissionReview is not for %s: it %s", w.Name(), why)))
}

// present reports whether raw contains an object.
func present(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && string(raw) != "null"
}

func refuse(err *apierrors.StatusError) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &err.ErrStatus}
}

func decode[T any](req *admissionv1.AdmissionRequest) (Review[T], error) {
	review := Review[T]{DryRun: req.DryRun != nil && *req.DryRun, Namespace: req.Namespace, Name: req.Name, User: req.UserInfo.Username}
	if present(req.Object.Raw) {
		review.Object = new(T)
		if err := unmarshal(req.Object.Raw, review.Object); err != nil {
			return review, fmt.Errorf("decode object: %w", err)
		}
	}
	if present(req.OldObject.Raw) {
		review.Old = new(T)
		if err := unmarshal(req.OldObject.Raw, review.Old); err != nil {
			return review, fmt.Errorf("decode old object: %w", err)
		}
	}
	return review, nil
}

func unmarshal(raw []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// difference is a JSON patch between two objects of our types. Fields that our
// types do not have are in neither, so they are not changed.
func difference(before, after any) ([]byte, error) {
	from, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreatePatch(from, to)
	if err != nil {
		return nil, err
	}
	return json.Marshal(patch)
}

// Finalizer creates a defaulting webhook that adds the finalizer of its controller
// to an object at creation. The controller would do so first of all; this saves it
// the write, and the object the time without one.
func Finalizer[T any, P interface {
	*T
	client.Object
}](target Target, name string) Webhook {
	target.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	target.When = map[string]string{"finalizer-missing": LacksFinalizer(name)}
	return Default(target, func(obj, old *T) {
		if old == nil {
			controllerutil.AddFinalizer(P(obj), name)
		}
	})
}

// LacksFinalizer is the condition that a new object has no such finalizer.
func LacksFinalizer(name string) string {
	return fmt.Sprintf("oldObject == null && !(%q in object.metadata.?finalizers.orValue([]))", name)
}
