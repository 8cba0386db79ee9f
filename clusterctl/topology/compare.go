// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// manager is the field manager of the topology's objects.
const manager = "capi-topology"

// Change is the change of one object.
type Change struct {
	Verb   Verb
	Object string // its kind, namespace and name
	// Details are fields with their values before and after, and for a template that
	// replaces another, the name of that.
	Details []string
	// Machines may be replaced, or updated in place, for it; those of a deleted group are
	// deleted.
	Machines []string
}

// Verb is the kind of a change.
type Verb string

// The kinds of changes.
const (
	Make   Verb = "make"
	Alter  Verb = "change"
	Delete Verb = "delete"
)

// Comparison is what would change on a management cluster.
type Comparison struct {
	Changes []Change
	Notes   []string
}

// comparing is a comparison in progress.
type comparing struct {
	context.Context
	*Plane
	source  *Source
	current desired.Current
	out     Comparison
}

// Compare returns what would change on the plane if all were applied, and writes nothing:
// it asks the plane for the result of each object, and the extensions that are registered
// there for their patches. A partial result has an error that describes what is wrong
// with the rest.
func (p *Plane) Compare(ctx context.Context, s *Source) (Comparison, error) {
	current, err := p.current(ctx, s)
	if err != nil {
		return Comparison{}, err
	}
	c := &comparing{Context: ctx, Plane: p, source: s, current: current}
	ask := &asker{Context: ctx, plane: p, cluster: s.Cluster}
	defer ask.close()
	s.discover = ask.discover
	d, err := s.compute(current, c.same, ask)
	if err != nil {
		return c.out, err
	}
	c.out.Notes = d.Unmatched
	c.way()
	cp := &d.ControlPlane
	errs := []error{
		d.Problem(),
		c.object(current.Infrastructure, d.Infrastructure.Object),
		c.template(current.Hosts, cp.Hosts),
		c.object(current.ControlPlane, cp.Object),
		c.healthCheck(current.ControlPlane, cp.Object, cp.HealthCheck),
	}
	for _, of := range []struct {
		kind  string
		is    map[string]*desired.Group
		parts []desired.GroupPart
	}{{upgrade.MachineDeployment, current.Deployments, d.Deployments}, {upgrade.MachinePool, current.Pools, d.Pools}} {
		for _, g := range of.parts {
			is := of.is[g.Name]
			if is == nil {
				is = &desired.Group{}
			}
			errs = append(errs, c.template(is.Bootstrap, g.Bootstrap), c.template(is.Hosts, g.Hosts), c.object(is.Object, g.Object))
			if of.kind == upgrade.MachineDeployment {
				errs = append(errs, c.healthCheck(is.Object, g.Object, g.HealthCheck))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(of.is)) {
			if !slices.ContainsFunc(of.parts, func(g desired.GroupPart) bool { return g.Name == name }) {
				errs = append(errs, c.leaves(of.is[name].Object))
			}
		}
	}
	return c.out, errors.Join(errs...)
}

// way adds the steps of an upgrade.
func (c *comparing) way() {
	cp := c.current.ControlPlane
	version, _, _ := unstructured.NestedString(object(cp), "spec", "version")
	if version == "" {
		return
	}
	var workers []string
	for _, groups := range []map[string]*desired.Group{c.current.Deployments, c.current.Pools} {
		for _, g := range groups {
			if v, _, _ := unstructured.NestedString(g.Object.Object, "spec", "template", "spec", "version"); v != "" {
				workers = append(workers, v)
			}
		}
	}
	class := &c.source.class.Spec
	way := upgrade.NewWay(version, workers, c.source.Cluster.Spec.Topology.Version)
	if name := class.Upgrade.External.GenerateUpgradePlanExtension; name != "" && way.Needed() {
		c.note("extension %s says which versions the upgrade from %s to %s goes through", name, version, way.Target)
		return
	}
	steps, err := upgrade.StepsFromClass(way, class.KubernetesVersions)
	if err == nil {
		steps, err = upgrade.CompleteSteps(way, steps)
	}
	switch {
	case err != nil:
		c.note("%v", err)
	case len(steps.ControlPlane) > 1 || len(steps.Workers) > 1:
		c.note("the upgrade takes the control plane through %s and workers through %s; shown is its end", list(steps.ControlPlane), list(steps.Workers))
	}
}

func (c *comparing) note(format string, args ...any) {
	c.out.Notes = append(c.out.Notes, fmt.Sprintf(format, args...))
}

func list(steps []string) string { return cmp.Or(strings.Join(steps, ", "), "none") }

// made is an object as the server would store it, with its defaults. It is the result of
// a dry-run creation, which no rule against changes of templates refuses.
func (c *comparing) made(wanted *unstructured.Unstructured) (any, error) {
	tried := wanted.DeepCopy()
	tried.SetName("")
	tried.SetGenerateName("render-")
	if err := c.mgmt.Create(c, tried, client.DryRunAll, client.FieldOwner(manager)); err != nil {
		return nil, fmt.Errorf("%s would be refused: %w", describe(wanted), err)
	}
	return tried.Object["spec"], nil
}

// same reports whether a template equals another with its defaults.
func (c *comparing) same(current, wanted *unstructured.Unstructured) (bool, error) {
	spec, err := c.made(wanted)
	return reflect.DeepEqual(current.Object["spec"], spec), err
}

// template compares a template; if its machines change, it is a new object.
func (c *comparing) template(is, wanted *unstructured.Unstructured) error {
	if is == nil || wanted == nil || is.GetName() == wanted.GetName() {
		return c.object(is, wanted)
	}
	spec, err := c.made(wanted)
	if err != nil {
		return err
	}
	c.out.Changes = append(c.out.Changes, Change{
		Verb: Make, Object: describe(wanted), Details: append([]string{"in place of " + is.GetName()}, differences("spec", is.Object["spec"], spec)...),
	})
	return nil
}

// object compares an object with the result of an apply.
func (c *comparing) object(is, wanted *unstructured.Unstructured) error {
	if wanted == nil {
		return nil
	}
	if is == nil {
		c.out.Changes = append(c.out.Changes, Change{Verb: Make, Object: describe(wanted)})
		return nil
	}
	after := wanted.DeepCopy()
	if err := c.mgmt.Apply(c, client.ApplyConfigurationFromUnstructured(after), client.ForceOwnership, client.FieldOwner(manager), client.DryRunAll); err != nil {
		return fmt.Errorf("%s would be refused: %w", describe(wanted), err)
	}
	details := differences("", visible(is), visible(after))
	if len(details) == 0 {
		return nil
	}
	machines, err := c.machines(details, is, after)
	c.out.Changes = append(c.out.Changes, Change{Verb: Alter, Object: describe(wanted), Details: details, Machines: machines})
	return err
}

// healthCheck compares the health check of a control plane or of a group, which has the
// name of its owner.
func (c *comparing) healthCheck(was, owner, wanted *unstructured.Unstructured) error {
	if was == nil || owner == nil && wanted == nil {
		return c.object(nil, wanted)
	}
	is, err := c.get(c, clusterv1.GroupVersion().WithKind("MachineHealthCheck"), client.ObjectKeyFromObject(was))
	if err != nil {
		return err
	}
	if wanted == nil && is != nil && is.GetLabels()[clusterv1.ClusterNameLabel] == c.source.Cluster.Name {
		if _, ours := is.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]; ours {
			c.out.Changes = append(c.out.Changes, Change{Verb: Delete, Object: describe(is)})
		}
	}
	return c.object(is, wanted)
}

// leaves adds the deletion of a group that is no longer in the topology.
func (c *comparing) leaves(is *unstructured.Unstructured) error {
	machines, err := c.machinesOf(is)
	c.out.Changes = append(c.out.Changes, Change{Verb: Delete, Object: describe(is), Machines: machines})
	return err
}

// machines returns the machines that a change may replace.
func (c *comparing) machines(details []string, is, after *unstructured.Unstructured) ([]string, error) {
	owner, spec := is, matching(details, "spec.")
	switch cp := c.current.ControlPlane; {
	case isCore(is, upgrade.MachineDeployment):
		have, err := machineTemplate(is)
		if err != nil {
			return nil, err
		}
		want, err := machineTemplate(after)
		if err != nil {
			return nil, err
		}
		spec = rollout.Differences(have, want)
	case isCore(is, upgrade.MachinePool):
		spec = matching(details, "spec.template.spec.version")
	case cp == nil || keyOf(is) != keyOf(cp):
		owner = c.pool(is)
	default:
		spec = slices.DeleteFunc(spec, func(d string) bool { return len(matching([]string{d}, inPlace...)) > 0 })
	}
	if owner == nil || len(spec) == 0 {
		return nil, nil
	}
	return c.machinesOf(owner)
}

// inPlace are fields of control planes that are applied to machines without replacing
// them, or affect no machines at all.
var inPlace = []string{
	"spec.replicas", "spec.rollout", "spec.remediation", "spec.machineTemplate.metadata",
	"spec.machineTemplate.spec.readinessGates", "spec.machineTemplate.spec.taints", "spec.machineTemplate.spec.deletion",
	"spec.machineTemplate.readinessGates", "spec.machineTemplate.taints", "spec.machineTemplate.node",
}

// pool is the MachinePool that an object belongs to, nil for none.
func (c *comparing) pool(part *unstructured.Unstructured) *unstructured.Unstructured {
	for _, g := range c.current.Pools {
		for _, of := range []*unstructured.Unstructured{g.Bootstrap, g.Hosts} {
			if of != nil && keyOf(of) == keyOf(part) {
				return g.Object
			}
		}
	}
	return nil
}

func matching(details []string, prefixes ...string) (out []string) {
	for _, d := range details {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(d, p) }) {
			out = append(out, d)
		}
	}
	return out
}

// machinesOf lists the machines of a control plane or a group by name.
func (c *comparing) machinesOf(owner *unstructured.Unstructured) (names []string, err error) {
	of := client.MatchingLabels{clusterv1.ClusterNameLabel: c.source.Cluster.Name}
	var also []client.ListOption
	switch owner.GetKind() {
	case upgrade.MachineDeployment:
		of[clusterv1.MachineDeploymentNameLabel] = owner.GetName()
	case upgrade.MachinePool:
		of[clusterv1.MachinePoolNameLabel] = owner.GetName()
	default:
		also = append(also, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	}
	var machines clusterv1.MachineList
	if err := c.mgmt.List(c, &machines, append(also, client.InNamespace(owner.GetNamespace()), of)...); err != nil {
		return nil, fmt.Errorf("list Machines of %s: %w", describe(owner), err)
	}
	for _, m := range machines.Items {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names, nil
}

// visible is the part of an object that users write.
func visible(u *unstructured.Unstructured) map[string]any {
	out := map[string]any{"metadata": map[string]any{}}
	for k, v := range u.Object {
		if k != "status" && k != "metadata" && k != "apiVersion" && k != "kind" {
			out[k] = v
		}
	}
	for _, k := range []string{"labels", "annotations"} {
		if v, ok, _ := unstructured.NestedMap(u.Object, "metadata", k); ok {
			out["metadata"].(map[string]any)[k] = v
		}
	}
	return out
}

func object(u *unstructured.Unstructured) map[string]any {
	if u == nil {
		return nil
	}
	return u.Object
}

// differences are the fields that differ, with their values.
func differences(at string, is, wanted any) (out []string) {
	a, isMap := is.(map[string]any)
	b, isToo := wanted.(map[string]any)
	switch {
	case isMap && isToo:
		names := maps.Clone(a)
		maps.Copy(names, b)
		for _, k := range slices.Sorted(maps.Keys(names)) {
			below := strings.TrimPrefix(at+"."+k, ".")
			if strings.ContainsAny(k, "./") {
				below = fmt.Sprintf("%s[%s]", at, k)
			}
			out = append(out, differences(below, a[k], b[k])...)
		}
	case !reflect.DeepEqual(is, wanted):
		out = append(out, fmt.Sprintf("%s: %s -> %s", at, value(is), value(wanted)))
	}
	return out
}

func value(v any) string {
	if v == nil {
		return "none"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
