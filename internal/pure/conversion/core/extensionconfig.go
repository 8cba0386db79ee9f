// SPDX-License-Identifier: Apache-2.0

package core

import (
	runtimev1alpha1 "github.com/capstan-dev/capstan/api/runtime/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// RuntimeKinds are the conversions of runtime.cluster.x-k8s.io. Fields that v1alpha1
// does not have are not stored in an annotation.
func RuntimeKinds() []rules.Kind {
	return []rules.Kind{
		rules.Define(rules.Definition[runtimev1alpha1.ExtensionConfig, runtimev1.ExtensionConfig]{
			Kind: "ExtensionConfig", Old: runtimev1alpha1.GroupVersion(), Hub: runtimev1.GroupVersion(), Up: extensionConfigUp, Down: extensionConfigDown,
		}),
	}
}

func extensionConfigUp(old *runtimev1alpha1.ExtensionConfig, hub, _ *runtimev1.ExtensionConfig) error {
	hub.Spec = runtimev1.ExtensionConfigSpec{
		ClientConfig: runtimev1.ClientConfig{
			URL:      rules.Value(old.Spec.ClientConfig.URL),
			CABundle: old.Spec.ClientConfig.CABundle,
		},
		NamespaceSelector: old.Spec.NamespaceSelector,
		Settings:          old.Spec.Settings,
	}
	if s := old.Spec.ClientConfig.Service; s != nil {
		hub.Spec.ClientConfig.Service = runtimev1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: rules.Value(s.Path), Port: s.Port}
	}
	hub.Status.Handlers = rules.List(old.Status.Handlers, func(old *runtimev1alpha1.ExtensionHandler, hub *runtimev1.ExtensionHandler) {
		*hub = runtimev1.ExtensionHandler{
			Name:           old.Name,
			RequestHook:    runtimev1.GroupVersionHook{APIVersion: old.RequestHook.APIVersion, Hook: old.RequestHook.Hook},
			TimeoutSeconds: rules.Value(old.TimeoutSeconds),
			FailurePolicy:  runtimev1.FailurePolicy(rules.Value(old.FailurePolicy)),
		}
	})
	hub.Status.Conditions = rules.Value(old.Status.V1Beta2).Conditions
	hub.Status.Deprecated = rules.Pointer(runtimev1.ExtensionConfigDeprecatedStatus{
		V1Beta1: rules.Pointer(runtimev1.ExtensionConfigV1Beta1DeprecatedStatus{Conditions: old.Status.Conditions}),
	})
	return nil
}

func extensionConfigDown(hub *runtimev1.ExtensionConfig, old *runtimev1alpha1.ExtensionConfig, _ rules.Lookup) error {
	old.Spec = runtimev1alpha1.ExtensionConfigSpec{
		ClientConfig: runtimev1alpha1.ClientConfig{
			URL:      rules.Pointer(hub.Spec.ClientConfig.URL),
			CABundle: hub.Spec.ClientConfig.CABundle,
		},
		NamespaceSelector: hub.Spec.NamespaceSelector,
		Settings:          hub.Spec.Settings,
	}
	if s := hub.Spec.ClientConfig.Service; !rules.IsZero(s) {
		old.Spec.ClientConfig.Service = &runtimev1alpha1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: rules.Pointer(s.Path), Port: s.Port}
	}
	old.Status.Handlers = rules.List(hub.Status.Handlers, func(hub *runtimev1.ExtensionHandler, old *runtimev1alpha1.ExtensionHandler) {
		*old = runtimev1alpha1.ExtensionHandler{
			Name:           hub.Name,
			RequestHook:    runtimev1alpha1.GroupVersionHook{APIVersion: hub.RequestHook.APIVersion, Hook: hub.RequestHook.Hook},
			TimeoutSeconds: rules.Pointer(hub.TimeoutSeconds),
			FailurePolicy:  rules.Pointer(string(hub.FailurePolicy)),
		}
	})
	old.Status.V1Beta2 = rules.Pointer(runtimev1alpha1.ExtensionConfigV1Beta2Status{Conditions: hub.Status.Conditions})
	old.Status.Conditions = rules.Value(rules.Value(hub.Status.Deprecated).V1Beta1).Conditions
	return nil
}
