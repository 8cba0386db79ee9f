// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// timeoutSeconds is how long a webhook may take. Ours compute; ten seconds
// are what a starved machine needs, not they.
const timeoutSeconds = int32(10)

// Configurations are the two objects that register webhooks with an API server.
// client returns how the API server reaches a path. All fields have values, also
// those that the API server would default, so that they compare equal with what it
// stores.
func Configurations(name string, all []Webhook, client func(path string) admissionregistrationv1.WebhookClientConfig) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, w := range all {
		v := w.configuration(client(w.Path()))
		if !w.Mutating {
			validating.Webhooks = append(validating.Webhooks, v)
			continue
		}
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: v.Name, ClientConfig: v.ClientConfig, Rules: v.Rules, FailurePolicy: v.FailurePolicy, MatchPolicy: v.MatchPolicy,
			NamespaceSelector: v.NamespaceSelector, ObjectSelector: v.ObjectSelector, SideEffects: v.SideEffects,
			TimeoutSeconds: v.TimeoutSeconds, AdmissionReviewVersions: v.AdmissionReviewVersions, MatchConditions: v.MatchConditions,
			ReinvocationPolicy: new(admissionregistrationv1.NeverReinvocationPolicy),
		})
	}
	return mutating, validating
}

// configuration is the webhook as a validating one; the fields of a mutating
// one are the same and one more.
func (w Webhook) configuration(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
	var conditions []admissionregistrationv1.MatchCondition
	for _, name := range slices.Sorted(maps.Keys(w.When)) {
		conditions = append(conditions, admissionregistrationv1.MatchCondition{Name: name, Expression: w.When[name]})
	}
	effects := admissionregistrationv1.SideEffectClassNone
	if w.Writes {
		effects = admissionregistrationv1.SideEffectClassNoneOnDryRun
	}
	return admissionregistrationv1.ValidatingWebhook{
		Name:         w.Name(),
		ClientConfig: client,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: w.operations(),
			Rule: admissionregistrationv1.Rule{
				APIGroups:   []string{w.Kind.Group},
				APIVersions: []string{w.version()},
				Resources:   []string{w.Resource},
				Scope:       new(cmp.Or(w.Scope, admissionregistrationv1.NamespacedScope)),
			},
		}},
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(effects),
		TimeoutSeconds:          new(timeoutSeconds),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions:         conditions,
	}
}

// version is that of its rule.
func (w Webhook) version() string {
	if w.Resource == AnyResource {
		return "*"
	}
	return w.Kind.Version
}
