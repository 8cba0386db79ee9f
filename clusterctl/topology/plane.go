// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// Plane is a management cluster to compare with.
type Plane struct{ mgmt client.Client }

// NewPlane returns the management cluster behind cfg.
func NewPlane(cfg *rest.Config) (*Plane, error) {
	scheme := runtime.NewScheme()
	if err := addToScheme(scheme); err != nil {
		return nil, err
	}
	mgmt, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	return &Plane{mgmt}, nil
}

// addToScheme adds what is read of a plane.
func addToScheme(s *runtime.Scheme) error {
	return errors.Join(clusterv1.AddToScheme(s), runtimev1.AddToScheme(s), corev1.AddToScheme(s), discoveryv1.AddToScheme(s))
}

// lookup reads from a plane the objects that are in no file.
type lookup struct {
	context.Context
	*Plane
}

// Lookup reads objects that are in no file.
func (p *Plane) Lookup(ctx context.Context) Lookup { return lookup{ctx, p} }

// Object implements Lookup.
func (l lookup) Object(apiVersion, kind string, key types.NamespacedName) (*unstructured.Unstructured, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	return l.get(l, gv.WithKind(kind), key)
}

// Contract implements Lookup.
func (l lookup) Contract(kind schema.GroupVersionKind) (string, error) {
	labels, err := l.definition(l, kind.Group, kind.Kind)
	if err != nil {
		return "", err
	}
	version, err := contract.Followed(labels, kind.Version)
	if err != nil {
		return "", fmt.Errorf("CustomResourceDefinition %s: %w", contract.CRDName(kind.Group, kind.Kind), err)
	}
	return version, nil
}

// definition returns the labels of the definition of a kind.
func (p *Plane) definition(ctx context.Context, group, kind string) (map[string]string, error) {
	d := &metav1.PartialObjectMetadata{}
	d.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := p.mgmt.Get(ctx, client.ObjectKey{Name: contract.CRDName(group, kind)}, d); err != nil {
		return nil, fmt.Errorf("read the definition of %s: %w", kind, err)
	}
	return d.Labels, nil
}

// get reads an object; nil if it does not exist.
func (p *Plane) get(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	err := p.mgmt.Get(ctx, key, u)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the management cluster does not know %s in version %s: is its provider installed?", kind.Kind, kind.GroupVersion())
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", kind.Kind, key, err)
	}
	return u, nil
}

// referred reads what a reference names, in the version in which the class names
// templates of its kind, or that its definition has for us.
func (p *Plane) referred(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference, class clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	named := class.GroupVersionKind()
	kind := schema.GroupVersionKind{Group: ref.APIGroup, Version: named.Version, Kind: ref.Kind}
	if ref.APIGroup != named.Group || ref.Kind != named.Kind && ref.Kind != strings.TrimSuffix(named.Kind, clusterv1.TemplateSuffix) {
		labels, err := p.definition(ctx, ref.APIGroup, ref.Kind)
		if err != nil {
			return nil, err
		}
		if _, kind.Version, err = contract.Choose(labels); err != nil {
			return nil, err
		}
	}
	return p.get(ctx, kind, types.NamespacedName{Namespace: namespace, Name: ref.Name})
}

// current reads the existing objects of a Cluster, and sets what only the plane
// has: its UID, and its references.
func (p *Plane) current(ctx context.Context, s *Source) (c desired.Current, err error) {
	live, err := p.get(ctx, clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind), client.ObjectKeyFromObject(s.Cluster))
	if err != nil || live == nil {
		return c, err
	}
	is := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, is); err != nil {
		return c, err
	}
	s.Cluster.UID = is.UID
	s.Cluster.Spec.InfrastructureRef, s.Cluster.Spec.ControlPlaneRef = is.Spec.InfrastructureRef, is.Spec.ControlPlaneRef
	class, namespace := &s.class.Spec, s.Cluster.Namespace
	if c.Infrastructure, err = p.referred(ctx, namespace, is.Spec.InfrastructureRef, class.Infrastructure.TemplateRef); err != nil {
		return c, err
	}
	if c.ControlPlane, err = p.referred(ctx, namespace, is.Spec.ControlPlaneRef, class.ControlPlane.TemplateRef); err != nil {
		return c, err
	}
	if c.ControlPlane != nil && class.ControlPlane.MachineInfrastructure.TemplateRef.IsDefined() {
		fields, err := contract.ControlPlaneFor(s.contract)
		if err != nil {
			return c, err
		}
		ref, _, err := fields.MachineTemplate.InfrastructureRef.Get(c.ControlPlane)
		if err != nil {
			return c, err
		}
		if c.Hosts, err = p.referred(ctx, namespace, ref, class.ControlPlane.MachineInfrastructure.TemplateRef); err != nil {
			return c, err
		}
	}
	var gone, others []string
	c.Deployments, gone, err = p.groups(ctx, s, upgrade.MachineDeployment, clusterv1.ClusterTopologyMachineDeploymentNameLabel)
	if err != nil {
		return c, err
	}
	c.Pools, others, err = p.groups(ctx, s, upgrade.MachinePool, clusterv1.ClusterTopologyMachinePoolNameLabel)
	c.Deleting = append(gone, others...)
	return c, err
}

// groups reads the groups of a kind by their names in the topology, and names those
// that are being deleted.
func (p *Plane) groups(ctx context.Context, s *Source, kind, label string) (all map[string]*desired.Group, deleting []string, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion().WithKind(kind + "List"))
	err = p.mgmt.List(ctx, list, client.InNamespace(s.Cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.Cluster.Name}, client.HasLabels{clusterv1.ClusterTopologyOwnedLabel, label})
	if err != nil {
		return nil, nil, fmt.Errorf("list %ss: %w", kind, err)
	}
	all = map[string]*desired.Group{}
	for i := range list.Items {
		u := &list.Items[i]
		if !u.GetDeletionTimestamp().IsZero() {
			deleting = append(deleting, kind+"/"+u.GetName())
			continue
		}
		name := u.GetLabels()[label]
		g := &desired.Group{Object: u}
		all[name] = g
		bootstrap, hosts := s.classOf(kind, name)
		if !bootstrap.IsDefined() { // it is to go
			continue
		}
		machine, err := machineTemplate(u)
		if err != nil {
			return nil, nil, err
		}
		var failed [2]error
		g.Bootstrap, failed[0] = p.referred(ctx, s.Cluster.Namespace, machine.Spec.Bootstrap.ConfigRef, bootstrap)
		g.Hosts, failed[1] = p.referred(ctx, s.Cluster.Namespace, machine.Spec.InfrastructureRef, hosts)
		if err := errors.Join(failed[:]...); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", describe(u), err)
		}
	}
	return all, deleting, nil
}

// template reads what machines of a group are made from.
func machineTemplate(u *unstructured.Unstructured) (t clusterv1.MachineTemplateSpec, err error) {
	raw, _, err := unstructured.NestedMap(u.Object, "spec", "template")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &t)
	}
	if err != nil {
		err = fmt.Errorf("%s: spec.template: %w", describe(u), err)
	}
	return t, err
}

// classOf are the templates that the class has for a group of the topology, if it
// is in both.
func (s *Source) classOf(kind, name string) (bootstrap, hosts clusterv1.ClusterClassTemplateReference) {
	workers, class := &s.Cluster.Spec.Topology.Workers, &s.class.Spec.Workers
	for _, t := range workers.MachineDeployments {
		for _, c := range class.MachineDeployments {
			if kind == upgrade.MachineDeployment && t.Name == name && c.Class == t.Class {
				return c.Bootstrap.TemplateRef, c.Infrastructure.TemplateRef
			}
		}
	}
	for _, t := range workers.MachinePools {
		for _, c := range class.MachinePools {
			if kind == upgrade.MachinePool && t.Name == name && c.Class == t.Class {
				return c.Bootstrap.TemplateRef, c.Infrastructure.TemplateRef
			}
		}
	}
	return bootstrap, hosts
}
