// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ObjectChange returns why an infrastructure cluster or a control plane cannot be changed to
// its desired state: it is the same object for the whole lifetime of the Cluster, because
// its reference cannot be changed without replacing the machines behind it.
func ObjectChange(current, wanted *unstructured.Unstructured) error {
	err := TemplateChange(current, wanted)
	if current.GetNamespace() != wanted.GetNamespace() {
		err = errors.Join(err, fmt.Errorf("%s %s cannot move to namespace %s", current.GetKind(), nameOf(current), wanted.GetNamespace()))
	}
	if current.GetName() != wanted.GetName() {
		err = errors.Join(err, fmt.Errorf("%s %s cannot be renamed to %s", current.GetKind(), nameOf(current), wanted.GetName()))
	}
	return err
}

// TemplateChange returns why a template cannot be changed to, or replaced by, another: the
// name and the version of its kind can differ, the kind cannot.
func TemplateChange(current, wanted *unstructured.Unstructured) error {
	was, is := current.GroupVersionKind().GroupKind(), wanted.GroupVersionKind().GroupKind()
	if was != is {
		return fmt.Errorf("%s %s cannot become a %s: have the ClusterClass refer to a template of %s again, or make another Cluster", was, nameOf(current), is, was)
	}
	return nil
}

func nameOf(u *unstructured.Unstructured) string { return u.GetNamespace() + "/" + u.GetName() }
