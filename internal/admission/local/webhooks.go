// SPDX-License-Identifier: Apache-2.0

// Package local validates the kinds of the local provider, as far as their
// schemas cannot: a template does not change, and a cluster listens only where
// clusters may. Clusters, machines and pools get their finalizers here, machines
// their provider ID as well.
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
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/internal/pure/fieldrules"
)

// Webhooks are the webhooks of the kinds here. Backends say where a cluster may
// listen.
func Webhooks(backends host.Backends) []webhook.Webhook {
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

// localMachine gives a LocalMachine its finalizer, and the provider ID that it
// will have if that is known by now: the controller, which has the last word,
// then has no spec to write.
func localMachine(backends host.Backends) webhook.Webhook {
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

// ours is the condition that nobody else manages a LocalCluster.
var ours = fmt.Sprintf("!(%q in object.metadata.?annotations.orValue({}))", clusterv1.ManagedByAnnotation)

// localCluster gives a LocalCluster its finalizer, but not one that others
// manage: nobody here would take it away again. An update that leaves the identity
// out, as one by kubectl replace does, keeps the one that is stored.
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

// endpoint keeps a LocalCluster from being reached where others are: its
// author may be a tenant, and the listener is this host's. One that others
// manage listens nowhere here.
func endpoint(backends host.Backends) webhook.Webhook {
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

// made is what a template says of what is made from it.
type made struct {
	meta clusterv1.ObjectMeta
	spec any
}

// template keeps what machines are made from as it is, except for rehearsals
// of the topology controller, which store nothing.
func template[T any, P interface {
	*T
	metav1.Object
}](kind, resource string, of func(*T) made) webhook.Webhook {
	on := target(kind, resource)
	on.When = map[string]string{
		"spec-changed":        webhook.SpecChanged,
		"has-what-is-checked": "oldObject != null || object.?spec.?template.?metadata.hasValue()",
	}
	return webhook.Validate(on, func(_ context.Context, r webhook.Review[T]) (v webhook.Verdict, _ error) {
		at, now := field.NewPath("spec", "template"), of(r.Object)
		v.Errors = fieldrules.Metadata(at.Child("metadata"), now.meta)
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
