// SPDX-License-Identifier: Apache-2.0

package core

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

const resourceSetLacks = `!object.spec.?strategy.hasValue()`

// AddonWebhooks are the webhooks of addons.cluster.x-k8s.io.
func AddonWebhooks() []webhook.Webhook {
	return []webhook.Webhook{
		webhook.Default(addonTarget("ClusterResourceSet", "clusterresourcesets", map[string]string{"defaults-missing": resourceSetLacks}), DefaultClusterResourceSet),
		webhook.Check(addonTarget("ClusterResourceSet", "clusterresourcesets", changed), ValidateClusterResourceSet),
		webhook.Check(addonTarget("ClusterResourceSetBinding", "clusterresourcesetbindings", bindingMoved), ValidateClusterResourceSetBinding),
	}
}

var bindingMoved = map[string]string{"cluster-changed": `oldObject != null && object.?spec.?clusterName != oldObject.?spec.?clusterName`}

func addonTarget(kind, resource string, when map[string]string) webhook.Target {
	return webhook.Target{Kind: addonsv1.GroupVersion().WithKind(kind), Resource: resource, When: when}
}

// DefaultClusterResourceSet sets what the user left out.
func DefaultClusterResourceSet(s, _ *addonsv1.ClusterResourceSet) {
	if s.Spec.Strategy == "" {
		s.Spec.Strategy = addonsv1.ClusterResourceSetStrategyApplyOnce
	}
}

// ValidateClusterResourceSet returns the errors in a ClusterResourceSet.
func ValidateClusterResourceSet(s, old *addonsv1.ClusterResourceSet) field.ErrorList {
	spec := field.NewPath("spec")
	selector := spec.Child("clusterSelector")
	errs := fieldvalidation.Selector(selector, &s.Spec.ClusterSelector)
	if fieldvalidation.IsEmptySelector(s.Spec.ClusterSelector) {
		errs = append(errs, field.Required(selector, "must not be empty: select Clusters by a label"))
	}
	if old == nil {
		return errs
	}
	if !equality.Semantic.DeepEqual(s.Spec.ClusterSelector, old.Spec.ClusterSelector) {
		errs = append(errs, field.Forbidden(selector, "cannot change; create another ClusterResourceSet instead"))
	}
	if old.Spec.Strategy != "" {
		errs = append(errs, fieldvalidation.Unchanged(spec.Child("strategy"), string(s.Spec.Strategy), string(old.Spec.Strategy))...)
	}
	return errs
}

// ValidateClusterResourceSetBinding returns the errors in a
// ClusterResourceSetBinding.
func ValidateClusterResourceSetBinding(b, old *addonsv1.ClusterResourceSetBinding) field.ErrorList {
	if old == nil || old.Spec.ClusterName == "" {
		return nil
	}
	return fieldvalidation.Unchanged(field.NewPath("spec", "clusterName"), b.Spec.ClusterName, old.Spec.ClusterName)
}
