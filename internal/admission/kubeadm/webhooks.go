// SPDX-License-Identifier: Apache-2.0

// Package kubeadm defaults and validates the kinds of the kubeadm bootstrap
// and control plane providers. The functions are pure; Webhooks lists what
// calls them and when.
package kubeadm

import (
	"context"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// Webhooks returns the webhooks for the kinds of this package. Each is called only
// for writes that it could default or refuse. c reads the control plane that a
// scale request refers to.
func Webhooks(c client.Reader) []webhook.Webhook {
	return []webhook.Webhook{
		webhook.Check(target(bootstrapv1.GroupVersion().WithKind("KubeadmConfig"), "kubeadmconfigs", configChanged("spec")), ValidateKubeadmConfig),
		webhook.Check(target(bootstrapv1.GroupVersion().WithKind("KubeadmConfigTemplate"), "kubeadmconfigtemplates", configChanged("spec.template.?spec", "object.?spec.?template.?metadata.hasValue()")), ValidateKubeadmConfigTemplate),

		webhook.Default(target(controlPlane("KubeadmControlPlane"), "kubeadmcontrolplanes", map[string]string{"defaults-missing": controlPlaneLacks}), DefaultKubeadmControlPlane),
		webhook.Check(target(controlPlane("KubeadmControlPlane"), "kubeadmcontrolplanes", changed), ValidateKubeadmControlPlane),
		webhook.Check(target(controlPlane("KubeadmControlPlaneTemplate"), "kubeadmcontrolplanetemplates", changed), ValidateKubeadmControlPlaneTemplate),
		webhook.Validate(scale(), func(ctx context.Context, r webhook.Review[autoscalingv1.Scale]) (webhook.Result, error) {
			kcp := &controlplanev1.KubeadmControlPlane{}
			err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, kcp)
			if err != nil && !apierrors.IsNotFound(err) {
				return webhook.Result{}, err
			}
			return webhook.Result{Errors: ValidateScale(r.Object, kcp)}, nil
		}),
	}
}

// changed is the condition under which an API server calls a webhook. A test
// compares the condition for defaulting with its function.
var changed = map[string]string{"spec-changed": webhook.SpecChanged}

var controlPlaneLacks = "(" + webhook.LacksFinalizer(controlplanev1.KubeadmControlPlaneFinalizer) + ")" +
	` || !object.?spec.?replicas.hasValue()` +
	` || !object.?spec.?version.orValue('v').startsWith('v')` +
	` || object.?spec.?rollout.?strategy.?type.orValue('') == ''` +
	` || (object.spec.rollout.strategy.type == 'RollingUpdate' && !object.spec.rollout.strategy.?rollingUpdate.?maxSurge.hasValue())`

// configChanged is true when spec changed and has one of the fields that are
// checked, or when one of others is true. Each machine has a KubeadmConfig, and few
// have these fields. The API server checks a bootstrap token by decoding it: one
// malformed token would make every list of KubeadmConfigs fail.
func configChanged(spec string, others ...string) map[string]string {
	at := "object.?" + spec
	checked := append(others, at+".?files.hasValue()", at+".?users.hasValue()", at+".?diskSetup.hasValue()", at+".?ignition.hasValue()",
		at+".?format.orValue('cloud-config') != 'cloud-config'", at+".?joinConfiguration.?discovery.?file.hasValue()", at+".?initConfiguration.?bootstrapTokens.hasValue()")
	return map[string]string{"spec-changed": webhook.SpecChanged, "has-what-is-checked": strings.Join(checked, " || ")}
}

func controlPlane(kind string) schema.GroupVersionKind {
	return controlplanev1.GroupVersion().WithKind(kind)
}

func target(kind schema.GroupVersionKind, resource string, when map[string]string) webhook.Target {
	return webhook.Target{Kind: kind, Resource: resource, When: when}
}

func scale() webhook.Target {
	return webhook.Target{
		Kind: controlPlane("KubeadmControlPlane"), Resource: "kubeadmcontrolplanes/scale",
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update}, When: changed,
	}
}
