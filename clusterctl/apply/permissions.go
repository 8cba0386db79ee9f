// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/contract"
)

// Right is a permission. "*" means all verbs, groups or resources.
type Right struct {
	Verb string
	schema.GroupResource
	// Namespace is empty for the whole management cluster.
	Namespace string
}

func (r Right) String() string {
	what := r.Verb + " " + r.GroupResource.String()
	if r.Namespace != "" {
		what += " in namespace " + r.Namespace
	}
	return what
}

// ReviewKind is the kind of the request to a management cluster.
func ReviewKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"}
}

// UnansweredError means that the user may not ask, or that the server cannot answer. Only
// the request itself then shows whether the user has the permission.
type UnansweredError struct{ Err error }

func (e *UnansweredError) Error() string {
	return fmt.Sprintf("the management cluster does not say what you may do: %v", e.Err)
}

func (e *UnansweredError) Unwrap() error { return e.Err }

// Allowed reports whether the user has a right.
func Allowed(ctx context.Context, mgmt client.Client, r Right) (bool, error) {
	review := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"resourceAttributes": map[string]any{"verb": r.Verb, "group": r.Group, "resource": r.Resource, "namespace": r.Namespace}},
	}}
	review.SetGroupVersionKind(ReviewKind())
	err := mgmt.Create(ctx, review)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		err = &UnansweredError{err}
	}
	if err != nil {
		return false, fmt.Errorf("ask for your rights: %w", err)
	}
	allowed, answered, err := contract.At[bool]("status.allowed").Get(review)
	if err == nil && !answered {
		err = &UnansweredError{errors.New("its answer has no status")}
	}
	if err != nil {
		return false, fmt.Errorf("ask for your rights: %w", err)
	}
	return allowed, nil
}
