// SPDX-License-Identifier: Apache-2.0

// Package patching changes objects by the four kinds of patch that an API server
// supports, and tracks the managers of their fields.
package patching

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// maxOperations and maxCopied bound a JSON patch, as API servers do: each copy can double an
// object.
const maxOperations, maxCopied = 10_000, 3 << 20

// Patch returns latest changed by a patch of the named type. Server-side apply
// is not one of them; see Apply.
func Patch(k *kinds.Kind, latest *unstructured.Unstructured, form types.PatchType, patch []byte) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(latest.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", k.Kind, latest.GetName(), err)
	}
	var after []byte
	switch form {
	case types.JSONPatchType:
		after, err = applyJSON(before, patch)
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, patch)
		if err != nil {
			err = badPatch(patch, err)
		}
	case types.StrategicMergePatchType:
		after, err = applyStrategic(k, before, patch)
	default:
		err = apierrors.NewBadRequest(fmt.Sprintf("unknown Content-Type header for patch: %s", form))
	}
	if err != nil {
		return nil, err
	}
	next := &unstructured.Unstructured{}
	if err := next.UnmarshalJSON(after); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the patched object is not a %s: %v", k.Kind, err))
	}
	return next, nil
}

// badPatch returns what is wrong with a patch: that it is no JSON, or else err.
func badPatch(patch []byte, err error) error {
	var v map[string]any
	if broken := json.Unmarshal(patch, &v); broken != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", broken))
	}
	return apierrors.NewBadRequest(err.Error())
}

func applyJSON(before, patch []byte) ([]byte, error) {
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(ops)))
	}
	// The library has one limit for the process, which an API server in it sets, too.
	atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxCopied)
	after, err := ops.Apply(before)
	if err != nil {
		return nil, unprocessable(err)
	}
	return after, nil
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

func applyStrategic(k *kinds.Kind, before, patch []byte) ([]byte, error) {
	if k.Custom != nil {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
			Message: "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
		}}
	}
	typed, err := k.New()
	if err != nil {
		return nil, fmt.Errorf("strategic merge patch of %s: %w", k.Kind, err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, typed)
	switch {
	case errors.Is(err, mergepatch.ErrNoListOfLists):
		return nil, unprocessable(err)
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return after, nil
}
