// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/move"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/conditions"
)

// move moves all clusters to another plane of the host, and measures until they are
// Available there. What both planes were asked for is counted, by controllers too.
func (b *bench) move(ctx context.Context, r *Result) (err error) {
	if !b.scenario.Move {
		return nil
	}
	dir, err := os.MkdirTemp("", "capstan-bench-target-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	flags := append(append([]string{}, b.flags...), "--simulated-dir="+filepath.Join(b.dir, "capstan-simulated"))
	to := &bench{scenario: b.scenario, binary: b.binary, dir: dir, flags: flags}
	if err := to.up(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.plane.stop()) }()
	source, err := move.Connect(b.config, "the source")
	if err != nil {
		return err
	}
	target, err := move.Connect(to.config, "the target")
	if err != nil {
		return err
	}
	before, err := b.snap(ctx)
	if err != nil {
		return err
	}
	there, err := to.snap(ctx)
	if err != nil {
		return err
	}
	m, begin := &r.Move, time.Now()
	if err := move.Run(ctx, move.Options{
		Source: source, Target: target, Namespace: namespace, By: "bench",
		Planned: func(p *plan.Plan) { m.Objects = len(p.Items) },
	}); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	m.Seconds = round(time.Since(begin).Seconds())
	if err := until(ctx, func() (bool, error) {
		var list clusterv1.ClusterList
		err := to.mgmt.List(ctx, &list, client.InNamespace(namespace))
		ready := 0
		for _, c := range list.Items {
			if conditions.IsTrue(&c, clusterv1.AvailableCondition) && complete(&c) {
				ready++
			}
		}
		return ready == b.scenario.Clusters, err
	}); err != nil {
		return fmt.Errorf("wait for the clusters at the target: %w", err)
	}
	m.AvailableSeconds = round(time.Since(begin).Seconds())
	after, err := b.snap(ctx)
	if err != nil {
		return err
	}
	thereAfter, err := to.settled(ctx)
	if err != nil {
		return err
	}
	here, arrived := after.requests.since(before.requests), thereAfter.requests.since(there.requests)
	m.RequestsPerObject = round((here.sum(counted) + arrived.sum(counted)) / float64(m.Objects))
	m.AtSource, m.AtTarget = here.counts(counted), arrived.counts(counted)
	m.Replaced = int(arrived.sum(func(q request) bool {
		return q.verb == "POST" && q.resource == "machines.cluster.x-k8s.io" && q.code == "201" && !q.dryRun
	})) - b.scenario.machines()
	return nil
}
