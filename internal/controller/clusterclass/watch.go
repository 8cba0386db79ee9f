// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"context"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/pure/classrefs"
)

// ofTemplate returns requests for the classes that name a template.
func (r *Reconciler) ofTemplate(ctx context.Context, template client.Object) []reconcile.Request {
	kind := template.GetObjectKind().GroupVersionKind().GroupKind()
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.ClusterClassList{}, func(class *clusterv1.ClusterClass) bool {
		return slices.ContainsFunc(classrefs.All(class), func(t classrefs.Template) bool {
			return t.Ref.Name == template.GetName() && t.Ref.GroupVersionKind().GroupKind() == kind
		})
	}, client.InNamespace(template.GetNamespace()))
}

// ofDefinition returns the classes that name a template of the kind of a CRD.
func (r *Reconciler) ofDefinition(ctx context.Context, crd client.Object) []reconcile.Request {
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.ClusterClassList{}, func(class *clusterv1.ClusterClass) bool {
		return slices.ContainsFunc(classrefs.All(class), func(t classrefs.Template) bool {
			kind := t.Ref.GroupVersionKind()
			return contract.CRDName(kind.Group, kind.Kind) == crd.GetName()
		})
	})
}

// ofExtension returns requests for the classes that use a handler of an extension
// for variables.
func (r *Reconciler) ofExtension(ctx context.Context, config string) []reconcile.Request {
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.ClusterClassList{}, func(class *clusterv1.ClusterClass) bool {
		return slices.ContainsFunc(class.Spec.Patches, func(p clusterv1.ClusterClassPatch) bool {
			return p.External != nil && strings.HasSuffix(p.External.DiscoverVariablesExtension, "."+config)
		})
	})
}
