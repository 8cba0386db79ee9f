// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// Adoption is what an owner puts on a provider object.
type Adoption struct {
	Owner   metav1.OwnerReference
	Cluster string // the value of the cluster-name label
	// Drop takes away references to earlier owners; nil drops none.
	Drop func(metav1.OwnerReference) bool
}

// Adopt puts owner and label on obj, in one patch, or none when they are there.
// An object that another controller owns is refused.
func (o *Objects) Adopt(ctx context.Context, obj *Object, a Adoption) error {
	changed := obj.DeepCopy()
	commit := patch.Remember(o.mgmt, changed)
	if a.Drop != nil {
		owner.RemoveFunc(changed, a.Drop)
	}
	if other := metav1.GetControllerOf(changed); other != nil && ptr.Deref(a.Owner.Controller, false) && (other.Kind != a.Owner.Kind || other.Name != a.Owner.Name) {
		return fmt.Errorf("%s %s is controlled by %s %s: refer to another object, or remove that owner",
			obj.GetKind(), client.ObjectKeyFromObject(obj), other.Kind, other.Name)
	}
	owner.Set(changed, a.Owner)
	owner.Label(changed, a.Cluster)
	if err := commit(ctx); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	obj.Unstructured = changed
	return nil
}
