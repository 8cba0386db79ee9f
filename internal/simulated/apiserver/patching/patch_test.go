// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

func TestPatchLimitsCopies(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": strings.Repeat("x", 64<<10)},
	}}
	for copies, want := range map[int]int32{3: 0, 12: http.StatusUnprocessableEntity} {
		patch := strings.TrimSuffix(strings.Repeat(`{"op":"copy","from":"/data","path":"/data/b"},`, copies), ",")
		_, err := Patch(kinds.ByType(&corev1.ConfigMap{}), u, types.JSONPatchType, []byte("["+patch+"]"))
		got := int32(0)
		if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
			got = status.ErrStatus.Code
		}
		if got != want {
			t.Errorf("%d copies: got error %v, want code %d", copies, err, want)
		}
	}
}
