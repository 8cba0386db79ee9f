// SPDX-License-Identifier: Apache-2.0

package core

import (
	addonsv1beta1 "github.com/capstan-dev/capstan/api/addons/v1beta1"
	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// AddonKinds are the conversions of addons.cluster.x-k8s.io. Fields that v1beta1 does
// not have are not stored in an annotation.
func AddonKinds() []rules.Kind {
	return []rules.Kind{
		rules.Define(rules.Definition[addonsv1beta1.ClusterResourceSet, addonsv1.ClusterResourceSet]{
			Kind: "ClusterResourceSet", Old: addonsv1beta1.GroupVersion(), Hub: addonsv1.GroupVersion(), Up: setUp, Down: setDown,
		}),
		rules.Define(rules.Definition[addonsv1beta1.ClusterResourceSetBinding, addonsv1.ClusterResourceSetBinding]{
			Kind: "ClusterResourceSetBinding", Old: addonsv1beta1.GroupVersion(), Hub: addonsv1.GroupVersion(), Up: bindingUp, Down: bindingDown,
		}),
	}
}

func setUp(old *addonsv1beta1.ClusterResourceSet, hub, _ *addonsv1.ClusterResourceSet) error {
	hub.Spec = addonsv1.ClusterResourceSetSpec{
		ClusterSelector: old.Spec.ClusterSelector,
		Resources:       rules.List(old.Spec.Resources, refUp),
		Strategy:        addonsv1.ClusterResourceSetStrategy(old.Spec.Strategy),
	}
	hub.Status.ObservedGeneration = old.Status.ObservedGeneration
	hub.Status.Conditions = rules.Value(old.Status.V1Beta2).Conditions
	hub.Status.Deprecated = rules.Pointer(addonsv1.ClusterResourceSetDeprecatedStatus{
		V1Beta1: rules.Pointer(addonsv1.ClusterResourceSetV1Beta1DeprecatedStatus{Conditions: old.Status.Conditions}),
	})
	return nil
}

func setDown(hub *addonsv1.ClusterResourceSet, old *addonsv1beta1.ClusterResourceSet, _ rules.Lookup) error {
	old.Spec = addonsv1beta1.ClusterResourceSetSpec{
		ClusterSelector: hub.Spec.ClusterSelector,
		Resources:       rules.List(hub.Spec.Resources, refDown),
		Strategy:        string(hub.Spec.Strategy),
	}
	old.Status.ObservedGeneration = hub.Status.ObservedGeneration
	old.Status.V1Beta2 = rules.Pointer(addonsv1beta1.ClusterResourceSetV1Beta2Status{Conditions: hub.Status.Conditions})
	old.Status.Conditions = rules.Value(rules.Value(hub.Status.Deprecated).V1Beta1).Conditions
	return nil
}

func refUp(old *addonsv1beta1.ResourceRef, hub *addonsv1.ResourceRef) {
	hub.Name, hub.Kind = old.Name, addonsv1.ClusterResourceSetResourceKind(old.Kind)
}

func refDown(hub *addonsv1.ResourceRef, old *addonsv1beta1.ResourceRef) {
	old.Name, old.Kind = hub.Name, string(hub.Kind)
}

func bindingUp(old *addonsv1beta1.ClusterResourceSetBinding, hub, _ *addonsv1.ClusterResourceSetBinding) error {
	hub.Spec.ClusterName = old.Spec.ClusterName
	hub.Spec.Bindings = rules.List(old.Spec.Bindings, func(old **addonsv1beta1.ResourceSetBinding, hub *addonsv1.ResourceSetBinding) {
		b := rules.Value(*old)
		hub.ClusterResourceSetName = b.ClusterResourceSetName
		hub.Resources = rules.List(b.Resources, func(old *addonsv1beta1.ResourceBinding, hub *addonsv1.ResourceBinding) {
			refUp(&old.ResourceRef, &hub.ResourceRef)
			hub.Hash, hub.LastAppliedTime, hub.Applied = old.Hash, rules.Time(old.LastAppliedTime), &old.Applied
		})
	})
	return nil
}

func bindingDown(hub *addonsv1.ClusterResourceSetBinding, old *addonsv1beta1.ClusterResourceSetBinding, _ rules.Lookup) error {
	old.Spec.ClusterName = hub.Spec.ClusterName
	old.Spec.Bindings = rules.List(hub.Spec.Bindings, func(hub *addonsv1.ResourceSetBinding, old **addonsv1beta1.ResourceSetBinding) {
		if rules.IsZero(*hub) {
			return
		}
		*old = &addonsv1beta1.ResourceSetBinding{
			ClusterResourceSetName: hub.ClusterResourceSetName,
			Resources: rules.List(hub.Resources, func(hub *addonsv1.ResourceBinding, old *addonsv1beta1.ResourceBinding) {
				refDown(&hub.ResourceRef, &old.ResourceRef)
				old.Hash, old.LastAppliedTime, old.Applied = hub.Hash, rules.TimePointer(hub.LastAppliedTime), rules.Value(hub.Applied)
			}),
		}
	})
	return nil
}
