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
	if in.ControlPlane, err = c.referred(ctx, key.Namespace, cluster.Spec.ControlPlaneRef); err != nil {
		return in, err
	}
	return in, errors.Join(c.readSets(ctx, key, &in), c.readHealthChecks(ctx, key, &in), c.readMachines(ctx, key, &in))
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
			t, err := c.referred(ctx, key.Namespace, ref)
			errs = append(errs, err)
			if t != nil {
				in.Templates[o.UID] = append(in.Templates[o.UID], *t)
			}
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

// referred reads the object behind a reference; nil when there is none.
func (c *Client) referred(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*tree.Object, error) {
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
	o, err := object(u, ref.Kind)
	return &o, err
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
