// SPDX-License-Identifier: Apache-2.0

// Package local validates the kinds of the local provider where their schemas
// cannot: a template is immutable, and a cluster listens only on permitted
// addresses. The package also adds finalizers to clusters, machines and pools, and
// the provider ID to machines.
package local

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// Webhooks returns the webhooks for the kinds of this package. Backends define
// where a cluster may listen.
func Webhooks(backends localinfra.Backends) []webhook.Webhook {
	return []webhook.Webhook{
		localCluster(),
		endpoint(backends),
		localMachine(backends),
		webhook.Finalizer[infrav1.LocalMachinePool](target("LocalMachinePool", "localmachinepools"), infrav1.LocalMachinePoolFinalizer),
		template("LocalClusterTemplate", "localclustertemplates", func(t *infrav1.LocalClusterTemplate) made {
			return made{meta: t.Spec.Template.ObjectMeta, spec: t.Spec.Template.Spec}
		}),
		template("LocalMachineTemplate", "localmachinetemplates", func(t *infrav1.LocalMachineTemplate) made {
			return made{meta: t.Spec.Template.ObjectMeta, spec: t.Spec.Template.Spec}
		}),
		template("LocalMachinePoolTemplate", "localmachinepooltemplates", func(t *infrav1.LocalMachinePoolTemplate) made {
			return made{meta: t.Spec.Template.ObjectMeta, spec: t.Spec.Template.Spec}
		}),
	}
}

// localMachine adds the finalizer to a LocalMachine, and its future provider ID if
// that is already determined: the controller, which decides the provider ID, then
// has no spec to write.
func localMachine(backends localinfra.Backends) webhook.Webhook {
	on := target("LocalMachine", "localmachines")
	on.Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	on.When = map[string]string{"finalizer-missing": webhook.LacksFinalizer(infrav1.LocalMachineFinalizer)}
	return webhook.Default(on, func(m, old *infrav1.LocalMachine) {
		if old != nil {
			return
		}
		controllerutil.AddFinalizer(m, infrav1.LocalMachineFinalizer)
		cluster := m.Labels[clusterv1.ClusterNameLabel]
		if backend, err := backends.OfMachine(m.Spec); err == nil && m.Spec.ProviderID == "" && m.Name != "" && cluster != "" {
			m.Spec.ProviderID = backend.ProviderID(client.ObjectKeyFromObject(m), cluster)
		}
	})
}

// ours is the condition that no external controller manages a LocalCluster.
var ours = fmt.Sprintf("!(%q in object.metadata.?annotations.orValue({}))", clusterv1.ManagedByAnnotation)

// localCluster adds the finalizer to a LocalCluster that is not externally managed:
// no controller here would remove it. An update that omits the identity, as kubectl
// replace does, keeps the stored one.
func localCluster() webhook.Webhook {
	const lost = "oldObject != null && oldObject.?spec.?identity.hasValue() && !object.?spec.?identity.hasValue()"
	on := target("LocalCluster", "localclusters")
	on.When = map[string]string{
		"finalizer-or-identity-missing": "(" + webhook.LacksFinalizer(infrav1.LocalClusterFinalizer) + ") || (" + lost + ")",
		"not-managed-by-others":         ours,
	}
	return webhook.Default(on, func(c, old *infrav1.LocalCluster) {
		if _, ok := c.Annotations[clusterv1.ManagedByAnnotation]; ok {
			return
		}
		if old == nil {
			controllerutil.AddFinalizer(c, infrav1.LocalClusterFinalizer)
		} else if c.Spec.Identity == "" {
			c.Spec.Identity = old.Spec.Identity
		}
	})
}

// endpoint prevents a LocalCluster from using an address that belongs to others:
// its author may be a tenant, and the listener is on this host. An externally
// managed LocalCluster has no listener here.
func endpoint(backends localinfra.Backends) webhook.Webhook {
	const at = "object.?spec.?controlPlaneEndpoint"
	on := target("LocalCluster", "localclusters")
	on.When = map[string]string{
		"endpoint-chosen":       at + ".hasValue() && (oldObject == null || " + at + " != oldObject.?spec.?controlPlaneEndpoint)",
		"not-managed-by-others": ours,
	}
	return webhook.Check(on, func(c, old *infrav1.LocalCluster) field.ErrorList {
		chosen := c.Spec.ControlPlaneEndpoint
		if _, managed := c.Annotations[clusterv1.ManagedByAnnotation]; managed || chosen.IsZero() || old != nil && old.Spec.ControlPlaneEndpoint == chosen {
			return nil
		}
		backend, err := backends.OfCluster(c.Spec)
		if err == nil {
			err = backend.CheckEndpoint(chosen)
		}
		if err != nil {
			return field.ErrorList{field.Forbidden(field.NewPath("spec", "controlPlaneEndpoint"), err.Error())}
		}
		return nil
	})
}

// made has the parts of a template that are copied to new objects.
type made struct {
	meta clusterv1.ObjectMeta
	spec any
}

// template requires that a template, from which machines are created, is immutable,
// except in dry runs of the topology controller, which store nothing.
func template[T any, P interface {
	*T
	metav1.Object
}](kind, resource string, of func(*T) made) webhook.Webhook {
	on := target(kind, resource)
	on.When = map[string]string{
		"spec-changed":        webhook.SpecChanged,
		"has-what-is-checked": "oldObject != null || object.?spec.?template.?metadata.hasValue()",
	}
	return webhook.Validate(on, func(_ context.Context, r webhook.Review[T]) (v webhook.Result, _ error) {
		at, now := field.NewPath("spec", "template"), of(r.Object)
		v.Errors = fieldvalidation.Metadata(at.Child("metadata"), now.meta)
		if r.Old == nil {
			return v, nil
		}
		_, rehearsal := P(r.Object).GetAnnotations()[clusterv1.TopologyDryRunAnnotation]
		if !(r.DryRun && rehearsal) && !equality.Semantic.DeepEqual(now.spec, of(r.Old).spec) {
			v.Errors = append(v.Errors, field.Forbidden(at.Child("spec"), "cannot change; create another template and refer to that one"))
		}
		return v, nil
	})
}

func target(kind, resource string) webhook.Target {
	return webhook.Target{Kind: infrav1.GroupVersion().WithKind(kind), Resource: resource}
}
