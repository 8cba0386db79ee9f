// SPDX-License-Identifier: Apache-2.0

// Package local validates the kinds of the local provider, as far as their
// schemas cannot: a template does not change.
package local

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// Webhooks are the webhooks of the kinds here.
func Webhooks() []webhook.Webhook {
	return []webhook.Webhook{
		template("LocalClusterTemplate", "localclustertemplates", func(t *infrav1.LocalClusterTemplate) any { return t.Spec.Template.Spec }),
		template("LocalMachineTemplate", "localmachinetemplates", func(t *infrav1.LocalMachineTemplate) any { return t.Spec.Template.Spec }),
		template("LocalMachinePoolTemplate", "localmachinepooltemplates", func(t *infrav1.LocalMachinePoolTemplate) any { return t.Spec.Template.Spec }),
	}
}

// template keeps what machines are made from as it is, except for rehearsals
// of the topology controller, which store nothing.
func template[T any, P interface {
	*T
	metav1.Object
}](kind, resource string, spec func(*T) any) webhook.Webhook {
	target := webhook.Target{
		Kind: infrav1.GroupVersion.WithKind(kind), Resource: resource,
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		When:       map[string]string{"spec-changed": webhook.SpecChanged},
	}
	return webhook.Validate(target, func(_ context.Context, r webhook.Review[T]) (webhook.Verdict, error) {
		_, rehearsal := P(r.Object).GetAnnotations()[clusterv1.TopologyDryRunAnnotation]
		if r.DryRun && rehearsal || equality.Semantic.DeepEqual(spec(r.Object), spec(r.Old)) {
			return webhook.Verdict{}, nil
		}
		at := field.NewPath("spec", "template", "spec")
		return webhook.Verdict{Errors: field.ErrorList{field.Forbidden(at, "cannot change; create another template and refer to that one")}}, nil
	})
}
