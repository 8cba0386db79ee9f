// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// Step is one change of an upgrade.
type Step struct {
	// Text describes what changes, from which version to which.
	Text string
	// After is what must be done before it; empty if nothing must.
	After string

	object  *unstructured.Unstructured
	path    []string
	version string
}

// parts are the objects of a cluster that have a version.
type parts struct {
	cluster, controlPlane *unstructured.Unstructured
	workers               []*unstructured.Unstructured
}

// workerKinds are the kinds of workers that have a version.
var workerKinds = []string{"MachineDeployment", "MachinePool"}

var templateVersion = []string{"spec", "template", "spec", "version"}

// parts reads the objects of a cluster that have a version.
func (c *Client) parts(ctx context.Context, key client.ObjectKey) (parts, error) {
	cluster, err := c.get(ctx, Object{clusterv1.ClusterKind, key})
	if err != nil {
		return parts{}, err
	}
	p := parts{cluster: cluster}
	group, kind := text(cluster, "spec", "controlPlaneRef", "apiGroup"), text(cluster, "spec", "controlPlaneRef", "kind")
	if kind != "" {
		mapping, err := c.mgmt.RESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: kind})
		if err != nil {
			return p, fmt.Errorf("find the kind of the control plane of %s: %w", name(cluster), err)
		}
		at := client.ObjectKey{Namespace: key.Namespace, Name: text(cluster, "spec", "controlPlaneRef", "name")}
		if p.controlPlane, err = c.read(ctx, mapping.GroupVersionKind, at); err != nil {
			return p, err
		}
	}
	for _, kind := range workerKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(clusterv1.GroupVersion().WithKind(kind + "List"))
		if err := c.mgmt.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}); err != nil {
			return p, fmt.Errorf("list the %ss of %s: %w", kind, name(cluster), err)
		}
		for i := range list.Items {
			p.workers = append(p.workers, &list.Items[i])
		}
	}
	slices.SortFunc(p.workers, func(a, b *unstructured.Unstructured) int { return strings.Compare(name(a), name(b)) })
	return p, nil
}

// PlanUpgrade returns the remaining steps until a cluster has a version: none when it
// has. It is computed from the current state, so that an interrupted upgrade can be
// resumed.
func (c *Client) PlanUpgrade(ctx context.Context, key client.ObjectKey, version string) ([]Step, error) {
	p, err := c.parts(ctx, key)
	if err != nil {
		return nil, err
	}
	return p.plan(version)
}

func (p parts) plan(version string) (steps []Step, err error) {
	if len(fieldvalidation.Version(nil, version)) > 0 {
		return nil, fmt.Errorf("version %q is not one such as v1.34.1", version)
	}
	add := func(obj *unstructured.Unstructured, what, after string, path ...string) {
		if from := text(obj, path...); from != version {
			steps = append(steps, Step{Text: fmt.Sprintf("%s: %s from %s to %s", name(obj), what, from, version), After: after, object: obj, path: path, version: version})
		}
	}
	if _, ok, _ := unstructured.NestedMap(p.cluster.Object, "spec", "topology"); ok {
		if err := allowed(p.cluster, version, mayPlan, "spec", "topology", "version"); err != nil {
			return nil, err
		}
		add(p.cluster, "its topology, and by that the control plane and then the workers,", "", "spec", "topology", "version")
		return steps, nil
	}
	after := ""
	if p.controlPlane != nil {
		if text(p.controlPlane, "spec", "version") == "" {
			return nil, fmt.Errorf("%s has no spec.version: it is upgraded by other means", name(p.controlPlane))
		}
		if err := allowed(p.controlPlane, version, oneMinor, "spec", "version"); err != nil {
			return nil, err
		}
		add(p.controlPlane, "the control plane", "", "spec", "version")
		if p.awaitsControlPlane(version) != "" {
			after = "the control plane"
		}
	}
	for _, w := range p.workers {
		if text(w, templateVersion...) == "" {
			continue // its images define it
		}
		if err := allowed(w, version, mayLag, templateVersion...); err != nil {
			return nil, err
		}
		add(w, "workers", after, templateVersion...)
	}
	return steps, nil
}

// How many minor versions an upgrade may skip, by Kubernetes' own rules: workers may be
// so many behind their control plane. For a topology, admission decides, which considers
// whether its class or an extension plans the steps between.
const (
	oneMinor = 1
	mayLag   = 3
	mayPlan  = 1 << 32
)

// allowed checks an upgrade against the rules of admission, before any request.
func allowed(obj *unstructured.Unstructured, version string, skip uint64, path ...string) error {
	from := text(obj, path...)
	was, err := semver.ParseTolerant(from)
	to, bad := semver.ParseTolerant(version)
	switch {
	case err != nil || bad != nil:
		return fmt.Errorf("%s: unknown whether %s comes after %q", name(obj), version, from)
	case to.LT(was):
		return fmt.Errorf("%s: version %s is newer than %s: nothing is downgraded", name(obj), from, version)
	case to.Major != was.Major || to.Minor > was.Minor+skip:
		return fmt.Errorf("%s: from %s to %s skips a minor version: upgrade to v%d.%d first", name(obj), from, version, was.Major, was.Minor+skip)
	}
	return nil
}

// awaitsControlPlane is what of the control plane is not at the version yet.
func (p parts) awaitsControlPlane(version string) string {
	switch {
	case p.controlPlane == nil:
		return ""
	case text(p.controlPlane, "spec", "version") != version:
		return "the topology to reach " + name(p.controlPlane)
	}
	missing := awaited(p.controlPlane)
	if now := text(p.controlPlane, "status", "version"); missing == "" && now != version {
		missing = fmt.Sprintf("version %s, at %s now", version, now)
	}
	if missing != "" {
		missing = name(p.controlPlane) + ": " + missing
	}
	return missing
}

// awaits is what of the cluster is not at the version yet.
func (p parts) awaits(version string) string {
	if missing := p.awaitsControlPlane(version); missing != "" {
		return missing
	}
	for _, w := range p.workers {
		if at := text(w, templateVersion...); at != version && at != "" {
			return "the topology to reach " + name(w)
		}
		if missing := awaited(w); missing != "" {
			return name(w) + ": " + missing
		}
	}
	return ""
}

// Apply applies one step.
func (c *Client) Apply(ctx context.Context, s Step, dryRun bool) error {
	return c.change(ctx, s.object.GroupVersionKind(), client.ObjectKeyFromObject(s.object), dryRun, func(obj *unstructured.Unstructured) error {
		return set(obj, s.version, s.path...)
	})
}

// WaitControlPlane returns when the control plane of a cluster has a version.
func (c *Client) WaitControlPlane(ctx context.Context, key client.ObjectKey, version string, progress func(string)) error {
	return c.waitParts(ctx, key, progress, func(p parts) string { return p.awaitsControlPlane(version) })
}

// WaitUpgraded returns when a cluster has a version, with its workers.
func (c *Client) WaitUpgraded(ctx context.Context, key client.ObjectKey, version string, progress func(string)) error {
	return c.waitParts(ctx, key, progress, func(p parts) string { return p.awaits(version) })
}

func (c *Client) waitParts(ctx context.Context, key client.ObjectKey, progress func(string), state func(parts) string) error {
	return c.wait(ctx, progress, func(watched *references.Watcher) (string, error) {
		p, err := c.parts(ctx, key)
		if err != nil {
			return "", err
		}
		follow(watched, p.cluster.GroupVersionKind(), key)
		if p.controlPlane != nil {
			follow(watched, p.controlPlane.GroupVersionKind(), client.ObjectKeyFromObject(p.controlPlane))
		}
		for _, kind := range workerKinds {
			watched.Follow(clusterv1.GroupVersion().WithKind(kind), client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name})
		}
		missing := state(p)
		if missing != "" && paused(p.cluster) {
			return "", fmt.Errorf("%s: %w", name(p.cluster), errPaused)
		}
		return missing, nil
	})
}
