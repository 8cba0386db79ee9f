// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RefusedError means that the API does not accept what a commit writes on Object: a
// schema, an admission policy or a webhook rejects it, and does so again until the
// object, its provider or the policy changes. What the API accepts was written.
type RefusedError struct {
	Object client.Object
	err    error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.err.Error() }

// Unwrap returns the answer of the API.
func (e *RefusedError) Unwrap() error { return e.err }

// refused wraps err if it is an answer of the API about the content of a request, and
// not about its time, its sender or the version of the object.
func (p *commit) refused(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return err
	default:
		if code < http.StatusBadRequest || code >= http.StatusInternalServerError {
			return err
		}
	}
	return &RefusedError{p.obj, err}
}

// conditionsAlone is the part of the patch of a status that has conditions, also those
// for clients of v1beta1.
func conditionsAlone(diff map[string]any) map[string]any {
	out := map[string]any{}
	for _, path := range [][]string{{"status", "conditions"}, {"status", "deprecated", "v1beta1", "conditions"}} {
		if v, found, _ := unstructured.NestedFieldNoCopy(diff, path...); found {
			_ = unstructured.SetNestedField(out, v, path...) // fails only where a map on the way is none
		}
	}
	return out
}

// limitGeneration lowers each observedGeneration in a patch to the stored one: the
// generation that would have resulted from a change of spec does not exist.
func limitGeneration(v any, generation int64) {
	switch v := v.(type) {
	case []any:
		for _, child := range v {
			limitGeneration(child, generation)
		}
	case map[string]any:
		if seen, ok := v["observedGeneration"].(float64); ok && int64(seen) > generation {
			v["observedGeneration"] = generation
		}
		for _, child := range v {
			limitGeneration(child, generation)
		}
	}
}
