// SPDX-License-Identifier: Apache-2.0

// Package compat says whether an object of a topology may become what is wanted
// of it by now. What may not would have to be another object: its reference
// cannot move there without the machines behind it.
package compat

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object reports why an infrastructure cluster or a control plane cannot become
// what is wanted: there is one of it as long as the Cluster lives.
func Object(current, wanted *unstructured.Unstructured) error {
	err := Template(current, wanted)
	if current.GetNamespace() != wanted.GetNamespace() {
		err = errors.Join(err, fmt.Errorf("%s %s cannot move to namespace %s", current.GetKind(), name(current), wanted.GetNamespace()))
	}
	if current.GetName() != wanted.GetName() {
		err = errors.Join(err, fmt.Errorf("%s %s cannot be renamed to %s", current.GetKind(), name(current), wanted.GetName()))
	}
	return err
}

// Template reports why a template cannot become, or be replaced by, another: it
// may have another name and another version of its kind, no other kind.
func Template(current, wanted *unstructured.Unstructured) error {
	was, is := current.GroupVersionKind().GroupKind(), wanted.GroupVersionKind().GroupKind()
	if was != is {
		return fmt.Errorf("%s %s cannot become a %s: have the ClusterClass refer to a template of %s again, or make another Cluster", was, name(current), is, was)
	}
	return nil
}

func name(u *unstructured.Unstructured) string { return u.GetNamespace() + "/" + u.GetName() }
