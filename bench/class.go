// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/clusterctl/template"
)

//go:embed class.yaml
var classFile []byte

// className is the name of the class in class.yaml.
const className = "bench"

// plain creates clusters without a class on a separate plane, and measures: the
// plane's previous work would add to the cost of later clusters.
func (b *bench) plain(ctx context.Context, r *Result) (err error) {
	if b.scenario.Plain == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "capstan-bench-plain")
	if err != nil {
		return err
	}
	without := *b.scenario
	without.Class, without.Clusters = false, b.scenario.Plain
	other := &bench{scenario: &without, binary: b.binary, dir: dir, flags: b.flags}
	if err := other.up(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, other.plane.Stop(), os.RemoveAll(dir)) }()
	var all Result
	if err := other.create(ctx, &all); err != nil {
		return err
	}
	r.Plain = Plain{
		WallSeconds: all.WallSeconds, CPUSecondsPerCluster: all.CPUSecondsPerCluster, RequestsPerCluster: all.RequestsPerCluster,
		ByVerbAndResource: all.ByVerbAndResource,
	}
	return nil
}

// makeClass creates the class, and waits until it is ready.
func (b *bench) makeClass(ctx context.Context, _ *Result) error {
	if !b.scenario.Class {
		return nil
	}
	objects, err := template.Objects(classFile)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		obj.SetNamespace(namespace)
		if err := b.mgmt.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s: %w", obj.GetKind(), err)
		}
	}
	class := &clusterv1.ClusterClass{}
	return b.until(ctx, func() (int, error) {
		err := b.mgmt.Get(ctx, client.ObjectKey{Namespace: namespace, Name: className}, class)
		return int(class.Generation - class.Status.ObservedGeneration), err
	})
}

// classBased is a cluster that specifies only what differs from the class.
func (s *Scenario) classBased(name string) *clusterv1.Cluster {
	c := &clusterv1.Cluster{}
	c.Namespace, c.Name = namespace, name
	c.Spec.ClusterNetwork.Pods.CIDRBlocks = []string{"10.244.0.0/16"}
	c.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.96.0.0/16"}
	t := &c.Spec.Topology
	t.ClassRef.Name, t.Version, t.ControlPlane.Replicas = className, s.KubernetesVersion, &s.ControlPlane
	t.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{{Class: "worker", Name: "workers", Replicas: &s.Workers}}
	return c
}

// compare compares the clusters with the plain ones.
func (b *bench) compare(_ context.Context, r *Result) error {
	if b.scenario.Plain > 0 {
		r.Plain.CPURatio = round(r.CPUSecondsPerCluster / r.Plain.CPUSecondsPerCluster)
	}
	if b.scenario.Class {
		r.Plain.RequestsOfTopology = addedByClass(r.ByVerbAndResource, r.Plain.ByVerbAndResource, b.scenario.Clusters, b.scenario.Plain)
	}
	return nil
}

// drainTimeout is the value that an edit of the class sets on the control plane machines.
const drainTimeout = 77

// editClass changes a field of the class that is applied to control planes and their
// Machines in place, and measures until all have it.
func (b *bench) editClass(ctx context.Context, r *Result) error {
	if !b.scenario.Class {
		return nil
	}
	before, err := b.snap(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	class := &clusterv1.ClusterClass{}
	class.Namespace, class.Name = namespace, className
	if err := b.merge(ctx, class, fmt.Sprintf(`{"spec":{"controlPlane":{"deletion":{"nodeDrainTimeoutSeconds":%d}}}}`, drainTimeout)); err != nil {
		return err
	}
	if err := b.until(ctx, func() (int, error) { return b.unedited(ctx) }); err != nil {
		return err
	}
	r.ClassEdit.Seconds = round(time.Since(begin).Seconds())
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	q, n := after.requests.Since(before.requests), float64(b.scenario.Clusters)
	r.ClassEdit.CPUSecondsPerCluster = round((after.cpu - before.cpu) / n)
	r.ClassEdit.AppliesPerCluster = round(q.Sum(planes.IsApply) / n)
	r.ClassEdit.WritesPerCluster = round(q.Sum(func(q planes.Request) bool {
		return planes.IsWrite(q) && !strings.HasSuffix(q.Resource, "/status") && !strings.HasPrefix(q.Resource, "events.")
	}) / n)
	r.ClassEdit.Conflicts, r.ClassEdit.ByVerbAndResource = q.Sum(planes.IsConflict), q.Counts(planes.Counted)
	return nil
}

// unedited counts the control plane machines that do not have the edit yet.
func (b *bench) unedited(ctx context.Context) (int, error) {
	var machines clusterv1.MachineList
	err := b.mgmt.List(ctx, &machines, client.InNamespace(namespace), client.HasLabels{clusterv1.MachineControlPlaneLabel})
	lacking := b.scenario.Clusters * int(b.scenario.ControlPlane)
	for i := range machines.Items {
		if have := machines.Items[i].Spec.Deletion.NodeDrainTimeoutSeconds; have != nil && *have == drainTimeout {
			lacking--
		}
	}
	return lacking, err
}

// addedByClass is how many requests that write a topology or report on it a class-based
// cluster needs in addition to those of a plain one.
func addedByClass(class, plain []planes.Count, clusters, plains int) float64 {
	of := func(counts []planes.Count, verb, resource string) (n float64) {
		for _, c := range counts {
			if c.Verb == verb && (c.Resource == resource || resource == "") {
				n += c.Count
			}
		}
		return n
	}
	added := func(verb, resource string) float64 {
		return of(class, verb, resource)/float64(clusters) - of(plain, verb, resource)/float64(plains)
	}
	total := added("APPLY", "")
	for _, verb := range []string{"PATCH", "POST"} {
		for _, resource := range []string{"clusters.cluster.x-k8s.io", "clusters.cluster.x-k8s.io/status", "events.events.k8s.io"} {
			total += added(verb, resource)
		}
	}
	return round(total)
}
