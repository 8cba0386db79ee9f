// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/classrefs"
)

// ReadTree reads what a tree of a Cluster shows with these options, for
// tree.Build. An object that is referred to but does not exist is left out.
//
// The number of requests does not grow with that of machines: what they refer to
// is listed by kind.
func (c *Client) ReadTree(ctx context.Context, key client.ObjectKey, o tree.Options) (tree.Input, error) {
	in, _, err := c.readTree(ctx, key, o)
	return in, err
}

// readTree also returns what was referred to.
func (c *Client) readTree(ctx context.Context, key client.ObjectKey, o tree.Options) (none tree.Input, wanted []references.Reference, err error) {
	cluster := &clusterv1.Cluster{}
	err = references.Explain(c.mgmt.Get(ctx, key, cluster), clusterv1.ClusterKind)
	if apierrors.IsNotFound(err) {
		return none, nil, &NoClusterError{Key: key, flags: c.Flags}
	}
	if err != nil {
		return none, nil, fmt.Errorf("get Cluster %s: %w", key, err)
	}
	shown, err := typed(cluster, clusterv1.ClusterKind)
	if err != nil {
		return none, nil, err
	}
	r := reading{Client: c, key: key, o: o, cluster: cluster, shown: shown}
	reads := []func(context.Context) error{r.readPlane, r.readClass, r.readBindings}
	for kind, into := range map[string]*[]row{
		"MachineDeployment": &r.deployments, "MachineSet": &r.sets, "MachinePool": &r.pools, "MachineHealthCheck": &r.checks, "Machine": &r.machines,
	} {
		reads = append(reads, func(ctx context.Context) error {
			objects, err := c.references().ListKind(ctx, clusterv1.GroupVersion().WithKind(kind), client.InNamespace(key.Namespace), references.OfCluster(key.Name))
			for i := range objects {
				*into = append(*into, row{Object: seen(&objects[i]), links: read(&objects[i])})
			}
			return err
		})
	}
	if err := references.Together(ctx, reads...); err != nil {
		return none, nil, err
	}
	wanted = append(wanted, references.At(key.Namespace, cluster.Spec.ControlPlaneRef))
	r.input(func(at references.Reference) *tree.Object { wanted = append(wanted, at); return nil })
	found, err := c.references().Find(ctx, key, wanted[1:])
	return r.input(func(at references.Reference) *tree.Object {
		if obj := found[at]; obj != nil {
			return new(seen(obj))
		}
		return nil
	}), wanted, err
}

// row is an object of the tree with what it refers to.
type row struct {
	tree.Object
	links
	templates []references.Reference
}

// reading is a tree that is being read.
type reading struct {
	*Client
	key client.ObjectKey
	o   tree.Options

	cluster  *clusterv1.Cluster
	shown    tree.Object
	class    *row // nil if it has none
	plane    *row // nil if it has none
	bindings addonsv1.ClusterResourceSetBinding

	deployments, sets, pools, checks, machines []row
}

func (r *reading) readPlane(ctx context.Context) error {
	plane, err := r.references().Get(ctx, references.At(r.key.Namespace, r.cluster.Spec.ControlPlaneRef))
	if plane != nil {
		r.plane = &row{Object: seen(plane), templates: []references.Reference{references.At(r.key.Namespace, machineTemplate(plane))}}
	}
	return err
}

// readClass reads the class of a Cluster. One of another namespace need not be for
// the user to see.
func (r *reading) readClass(ctx context.Context) error {
	key, class := r.cluster.GetClassKey(), &clusterv1.ClusterClass{}
	if key.Name == "" {
		return nil
	}
	err := r.mgmt.Get(ctx, key, class)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("get ClusterClass %s: %w", key, err)
	}
	shown, err := typed(class, clusterv1.ClusterClassKind)
	r.class = &row{Object: shown}
	for _, t := range classrefs.Distinct(class) {
		gvk := t.Ref.GroupVersionKind()
		r.class.templates = append(r.class.templates, references.To(causes.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: class.Namespace, Name: t.Ref.Name}))
	}
	return err
}

// readBindings reads which ClusterResourceSets were applied; a management cluster
// may be without that kind.
func (r *reading) readBindings(ctx context.Context) error {
	if !r.o.ShowResourceSets {
		return nil
	}
	bindings := &unstructured.Unstructured{}
	bindings.SetGroupVersionKind(addonsv1.GroupVersion().WithKind("ClusterResourceSetBinding"))
	err := r.mgmt.Get(ctx, r.key, bindings)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(bindings.Object, &r.bindings)
	}
	if err != nil {
		return fmt.Errorf("get ClusterResourceSetBinding %s: %w", r.key, err)
	}
	return nil
}

// input combines the objects that were read with those that they refer to, which
// lookup returns.
func (r *reading) input(lookup func(references.Reference) *tree.Object) tree.Input {
	in := tree.Input{Cluster: r.shown, Templates: map[string][]tree.Object{}}
	at := func(ref clusterv1.ContractVersionedObjectReference) *tree.Object {
		return lookup(references.At(r.key.Namespace, ref))
	}
	note := func(of *tree.Object, templates ...references.Reference) {
		for _, ref := range templates {
			if !r.o.ShowTemplates {
				return
			}
			if t := lookup(ref); t != nil {
				in.Templates[of.UID] = append(in.Templates[of.UID], *t)
			}
		}
	}
	in.Infrastructure = at(r.cluster.Spec.InfrastructureRef)
	if r.class != nil {
		in.Class = &r.class.Object
		note(in.Class, r.class.templates...)
	}
	if r.plane != nil {
		in.ControlPlane = &r.plane.Object
		note(in.ControlPlane, r.plane.templates...)
	}
	for _, b := range r.bindings.Spec.Bindings {
		if set := at(clusterv1.ContractVersionedObjectReference{APIGroup: addonsv1.GroupVersion().Group, Kind: "ClusterResourceSet", Name: b.ClusterResourceSetName}); set != nil {
			in.ResourceSets = append(in.ResourceSets, *set)
		}
	}
	for _, check := range r.checks {
		in.HealthChecks = append(in.HealthChecks, check.Object)
	}
	for into, from := range map[*[]tree.Object][]row{&in.MachineDeployments: r.deployments, &in.MachineSets: r.sets} {
		for _, set := range from {
			*into = append(*into, set.Object)
			template := set.Spec.Template.Spec
			note(&set.Object, references.At(r.key.Namespace, template.InfrastructureRef), references.At(r.key.Namespace, template.Bootstrap.ConfigRef))
		}
	}
	for _, pool := range r.pools {
		template := pool.Spec.Template.Spec
		in.MachinePools = append(in.MachinePools, tree.Machine{Object: pool.Object, Infrastructure: at(template.InfrastructureRef), Bootstrap: at(template.Bootstrap.ConfigRef)})
	}
	for _, m := range r.machines {
		machine := tree.Machine{Object: m.Object}
		if r.worthReading(&m.Object, clusterv1.InfrastructureReadyCondition) {
			machine.Infrastructure = at(m.Spec.InfrastructureRef)
		}
		if r.worthReading(&m.Object, clusterv1.BootstrapConfigReadyCondition) {
			machine.Bootstrap = at(m.Spec.Bootstrap.ConfigRef)
		}
		in.Machines = append(in.Machines, machine)
	}
	return in
}

// worthReading reports whether an object of a Machine may have a row. A condition of
// the Machine reports whether the object is ready, and a ready object has none: in a
// large cluster, these are most of the objects.
func (r *reading) worthReading(machine *tree.Object, condition string) bool {
	ready := machine.Condition(condition)
	return r.o.Echo || ready == nil || ready.Status != metav1.ConditionTrue
}

// machineTemplate is the template from which a control plane creates the
// infrastructure of its machines, if it creates any.
func machineTemplate(plane *unstructured.Unstructured) clusterv1.ContractVersionedObjectReference {
	for _, version := range []string{contract.V1Beta2, contract.V1Beta1} {
		of, err := contract.ControlPlaneFor(version)
		if err != nil {
			continue
		}
		if ref, ok, err := of.MachineTemplate.InfrastructureRef.Get(plane); ok && err == nil {
			return ref
		}
	}
	return clusterv1.ContractVersionedObjectReference{}
}

// counts are those of a kind that has replicas, and of a Cluster for each half.
type counts struct {
	DesiredReplicas   *int32 `json:"desiredReplicas"`
	Replicas          *int32 `json:"replicas"`
	ReadyReplicas     *int32 `json:"readyReplicas"`
	AvailableReplicas *int32 `json:"availableReplicas"`
	UpToDateReplicas  *int32 `json:"upToDateReplicas"`
}

// shown is what the tree shows of any object, by the names of these fields in the
// contracts.
type shown struct {
	Spec struct {
		Replicas *int32 `json:"replicas"`
		Version  string `json:"version"`
		Paused   bool   `json:"paused"`
		Topology struct {
			Version string `json:"version"`
		} `json:"topology"`
		Template struct {
			Spec struct {
				Version string `json:"version"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		counts
		ControlPlane counts `json:"controlPlane"`
		Workers      counts `json:"workers"`
		// For a MachineHealthCheck, Machines correspond to the replicas of other kinds.
		ExpectedMachines *int32 `json:"expectedMachines"`
		CurrentHealthy   *int32 `json:"currentHealthy"`
	} `json:"status"`
}

// seen is what the tree shows of an object. An object of a provider may have fields of
// another form: they are left out, so that the rest can be displayed.
func seen(obj *unstructured.Unstructured) tree.Object {
	o := tree.Object{
		Kind:      obj.GetKind(),
		Namespace: obj.GetNamespace(),
		Name:      obj.GetName(),
		UID:       string(obj.GetUID()),
		Created:   obj.GetCreationTimestamp(),
		Deleted:   obj.GetDeletionTimestamp(),
		Labels:    obj.GetLabels(),
		Owners:    obj.GetOwnerReferences(),
	}
	list, err := conditions.FromUnstructured(obj)
	if o.Conditions = list; err != nil {
		o.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionUnknown, Reason: "Unreadable", Message: err.Error(), LastTransitionTime: o.Created}}
	}
	var s shown
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &s); err != nil {
		return o
	}
	o.Version = cmp.Or(s.Spec.Version, s.Spec.Topology.Version, s.Spec.Template.Spec.Version)
	_, annotated := obj.GetAnnotations()[clusterv1.PausedAnnotation]
	o.Paused = annotated || s.Spec.Paused || conditions.IsTrue(list, clusterv1.PausedCondition)
	st := &s.Status
	o.Replicas = tree.Counters{Desired: s.Spec.Replicas, Current: st.Replicas, Ready: st.ReadyReplicas, Available: st.AvailableReplicas, UpToDate: st.UpToDateReplicas}
	switch o.Kind {
	case clusterv1.ClusterKind:
		a, b := st.ControlPlane, st.Workers
		o.Replicas = tree.Counters{
			Desired: sum(a.DesiredReplicas, b.DesiredReplicas), Current: sum(a.Replicas, b.Replicas), Ready: sum(a.ReadyReplicas, b.ReadyReplicas),
			Available: sum(a.AvailableReplicas, b.AvailableReplicas), UpToDate: sum(a.UpToDateReplicas, b.UpToDateReplicas),
		}
	case "MachineHealthCheck":
		o.Replicas = tree.Counters{Desired: st.ExpectedMachines, Current: st.ExpectedMachines, Ready: st.CurrentHealthy}
	}
	return o
}

// sum is nil if nothing was counted.
func sum(a, b *int32) *int32 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return new(*a + *b)
}

// typed is seen for an object with one of our Go types.
func typed(obj client.Object, kind string) (tree.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return tree.Object{}, fmt.Errorf("read %s %s: %w", kind, client.ObjectKeyFromObject(obj), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetKind(kind)
	return seen(u), nil
}
