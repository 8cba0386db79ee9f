// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/topology/classrefs"
)

// ReadTree reads everything that belongs to a Cluster, for tree.Build.
// An object that is referred to but does not exist is left out.
func (c *Client) ReadTree(ctx context.Context, key client.ObjectKey) (tree.Input, error) {
	in := tree.Input{Templates: map[string][]tree.Object{}}
	cluster := &clusterv1.Cluster{}
	err := explain(c.mgmt.Get(ctx, key, cluster), clusterv1.ClusterKind)
	if apierrors.IsNotFound(err) {
		return in, &NoClusterError{key}
	}
	if err != nil {
		return in, fmt.Errorf("get Cluster %s: %w", key, err)
	}
	if in.Cluster, err = object(cluster, clusterv1.ClusterKind); err != nil {
		return in, err
	}
	if in.Infrastructure, err = c.referred(ctx, key.Namespace, cluster.Spec.InfrastructureRef); err != nil {
		return in, err
	}
	return in, errors.Join(c.readClass(ctx, cluster, &in), c.readControlPlane(ctx, cluster, &in),
		c.readSets(ctx, key, &in), c.readHealthChecks(ctx, key, &in), c.readMachines(ctx, key, &in))
}

// readClass reads the class of a Cluster and its templates. One of another namespace
// need not be for the user to see.
func (c *Client) readClass(ctx context.Context, cluster *clusterv1.Cluster, in *tree.Input) error {
	key, class := cluster.GetClassKey(), &clusterv1.ClusterClass{}
	if key.Name == "" {
		return nil
	}
	err := c.mgmt.Get(ctx, key, class)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("get ClusterClass %s: %w", key, err)
	}
	o, err := object(class, clusterv1.ClusterClassKind)
	if err != nil {
		return err
	}
	in.Class = &o
	var errs []error
	for _, t := range classrefs.Distinct(class) {
		gvk := t.Ref.GroupVersionKind()
		errs = append(errs, c.noteTemplate(ctx, in, &o, key.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: t.Ref.Name}))
	}
	return errors.Join(errs...)
}

// readControlPlane reads the control plane, and the template that it makes the
// infrastructure of its machines from, if it has one.
func (c *Client) readControlPlane(ctx context.Context, cluster *clusterv1.Cluster, in *tree.Input) error {
	u, err := c.get(ctx, cluster.Namespace, cluster.Spec.ControlPlaneRef)
	if u == nil || err != nil {
		return err
	}
	o, err := object(u, cluster.Spec.ControlPlaneRef.Kind)
	if err != nil {
		return err
	}
	in.ControlPlane = &o
	for _, version := range []string{contract.V1Beta2, contract.V1Beta1} {
		of, err := contract.ControlPlaneFor(version)
		if err != nil {
			return err
		}
		if ref, ok, err := of.MachineTemplate.InfrastructureRef.Get(u); ok && err == nil {
			return c.noteTemplate(ctx, in, &o, cluster.Namespace, ref)
		}
	}
	return nil
}

// noteTemplate reads a template that an object refers to.
func (c *Client) noteTemplate(ctx context.Context, in *tree.Input, of *tree.Object, namespace string, ref clusterv1.ContractVersionedObjectReference) error {
	t, err := c.referred(ctx, namespace, ref)
	if t != nil {
		in.Templates[of.UID] = append(in.Templates[of.UID], *t)
	}
	return err
}

// readHealthChecks reads the MachineHealthChecks, for which Machines are what
// replicas are for others.
func (c *Client) readHealthChecks(ctx context.Context, key client.ObjectKey, in *tree.Input) error {
	var checks clusterv1.MachineHealthCheckList
	if err := c.list(ctx, key, &checks); err != nil {
		return err
	}
	for i := range checks.Items {
		o, err := object(&checks.Items[i], "MachineHealthCheck")
		if err != nil {
			return err
		}
		st := checks.Items[i].Status
		o.Replicas = tree.Counters{Desired: st.ExpectedMachines, Current: st.ExpectedMachines, Ready: st.CurrentHealthy}
		in.HealthChecks = append(in.HealthChecks, o)
	}
	return nil
}

// readSets reads the kinds that hold machines, and the templates they use.
func (c *Client) readSets(ctx context.Context, key client.ObjectKey, in *tree.Input) error {
	var deployments clusterv1.MachineDeploymentList
	var sets clusterv1.MachineSetList
	var pools clusterv1.MachinePoolList
	for _, list := range []client.ObjectList{&deployments, &sets, &pools} {
		if err := c.list(ctx, key, list); err != nil {
			return err
		}
	}
	var errs []error
	note := func(into *[]tree.Object, obj client.Object, kind string, template *clusterv1.MachineSpec) {
		o, err := object(obj, kind)
		errs = append(errs, err)
		*into = append(*into, o)
		for _, ref := range []clusterv1.ContractVersionedObjectReference{template.InfrastructureRef, template.Bootstrap.ConfigRef} {
			errs = append(errs, c.noteTemplate(ctx, in, &o, key.Namespace, ref))
		}
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		note(&in.MachineDeployments, d, "MachineDeployment", &d.Spec.Template.Spec)
	}
	for i := range sets.Items {
		s := &sets.Items[i]
		note(&in.MachineSets, s, "MachineSet", &s.Spec.Template.Spec)
	}
	for i := range pools.Items {
		p := &pools.Items[i]
		note(&in.MachinePools, p, "MachinePool", &p.Spec.Template.Spec)
	}
	return errors.Join(errs...)
}

func (c *Client) readMachines(ctx context.Context, key client.ObjectKey, in *tree.Input) error {
	var machines clusterv1.MachineList
	if err := c.list(ctx, key, &machines); err != nil {
		return err
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		o, err := object(m, "Machine")
		if err != nil {
			return err
		}
		row := tree.Machine{Object: o}
		if row.Infrastructure, err = c.referred(ctx, key.Namespace, m.Spec.InfrastructureRef); err != nil {
			return err
		}
		if row.Bootstrap, err = c.referred(ctx, key.Namespace, m.Spec.Bootstrap.ConfigRef); err != nil {
			return err
		}
		in.Machines = append(in.Machines, row)
	}
	return nil
}

func (c *Client) list(ctx context.Context, key client.ObjectKey, into client.ObjectList) error {
	err := c.mgmt.List(ctx, into, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name})
	if err != nil {
		return fmt.Errorf("list objects of Cluster %s: %w", key, err)
	}
	return nil
}

// referred is what the tree shows of the object behind a reference; nil when there
// is none.
func (c *Client) referred(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*tree.Object, error) {
	u, err := c.get(ctx, namespace, ref)
	if u == nil || err != nil {
		return nil, err
	}
	o, err := object(u, ref.Kind)
	return &o, err
}

// get reads the object behind a reference; nil when there is none.
func (c *Client) get(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	if ref.Name == "" {
		return nil, nil
	}
	mapping, err := c.mgmt.RESTMapper().RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil, explain(err, ref.Kind+"."+ref.APIGroup)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := c.mgmt.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, u); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	return u, nil
}

// shown is what the tree shows of any object, by the names that the contracts
// give these fields on every kind.
type shown struct {
	Spec struct {
		Replicas *int32 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Replicas          *int32             `json:"replicas"`
		ReadyReplicas     *int32             `json:"readyReplicas"`
		AvailableReplicas *int32             `json:"availableReplicas"`
		UpToDateReplicas  *int32             `json:"upToDateReplicas"`
		Conditions        []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func object(obj client.Object, kind string) (tree.Object, error) {
	var s shown
	raw, err := json.Marshal(obj)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return tree.Object{}, fmt.Errorf("read %s %s: %w", kind, client.ObjectKeyFromObject(obj), err)
	}
	return tree.Object{
		Kind:       kind,
		Namespace:  obj.GetNamespace(),
		Name:       obj.GetName(),
		UID:        string(obj.GetUID()),
		Created:    obj.GetCreationTimestamp(),
		Deleted:    obj.GetDeletionTimestamp(),
		Labels:     obj.GetLabels(),
		Owners:     obj.GetOwnerReferences(),
		Conditions: s.Status.Conditions,
		Replicas: tree.Counters{
			Desired:   s.Spec.Replicas,
			Current:   s.Status.Replicas,
			Ready:     s.Status.ReadyReplicas,
			Available: s.Status.AvailableReplicas,
			UpToDate:  s.Status.UpToDateReplicas,
		},
	}, nil
}
