// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/core"
	"github.com/capstan-dev/capstan/internal/pure/conversion/kubeadm"
)

// typed reads an object of ours, at whichever version it is written, and refuses
// fields that it does not have.
func typed(u *unstructured.Unstructured, into runtime.Object) error {
	u, err := converted(u, clusterv1.GroupVersion().String())
	if err != nil {
		return err
	}
	return strictly(u, into)
}

func strictly(u *unstructured.Unstructured, into runtime.Object) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, true); err != nil {
		return fmt.Errorf("%s: %w", describe(u), err)
	}
	return nil
}

// converted is an object at a version, as a management cluster would return it
// that was given u.
func converted(u *unstructured.Unstructured, apiVersion string) (*unstructured.Unstructured, error) {
	if u.GetAPIVersion() == apiVersion {
		return u, nil
	}
	from := u.GroupVersionKind()
	for _, k := range slices.Concat(core.Kinds(), kubeadm.Kinds()) {
		is, convert := k.NewOld(), k.Up
		switch {
		case from == k.Old && apiVersion == k.Hub.GroupVersion().String():
		case from == k.Hub && apiVersion == k.Old.GroupVersion().String():
			is, convert = k.NewHub(), func(hub runtime.Object) (runtime.Object, error) { return k.Down(hub, noReferences) }
		default:
			continue
		}
		if err := strictly(u, is); err != nil {
			return nil, err
		}
		out, err := convert(is)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		return u, utiljson.Unmarshal(text, &u.Object)
	}
	return nil, fmt.Errorf("%s: its apiVersion is %s: write it as %s", describe(u), u.GetAPIVersion(), apiVersion)
}

// noReferences is for templates, the only objects that are converted to older
// versions here: they have no references.
func noReferences(kind schema.GroupKind) (string, error) {
	return "", fmt.Errorf("%s is referred to at an unknown version", kind)
}
