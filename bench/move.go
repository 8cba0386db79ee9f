// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/clusterctl/move"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/conditions"
)

// move moves all clusters to another plane of the host, and measures until they are
// Available there. It counts the requests to both planes, including those of controllers.
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
	to := &bench{scenario: b.scenario, binary: b.binary, dir: dir, flags: flags, profiler: b.profiler}
	if err := to.up(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.plane.Stop()) }()
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
	endProfiles, err := b.profiler.During(ctx, map[string]string{"source": b.profiled, "target": to.profiled})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endProfiles()) }()
	m, steps := &r.Move, &stopwatch{begin: time.Now(), planes: []*planes.Process{b.plane, to.plane}}
	steps.next("Planning")
	if err := move.Run(ctx, move.Options{
		Source: source, Target: target, Namespace: namespace, By: "bench", Progress: steps.next,
		Planned: func(p *plan.Plan) { m.Objects = len(p.Items) },
	}); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	begin := steps.begin
	m.Seconds = round(time.Since(begin).Seconds())
	steps.next("until all are Available")
	if err := to.awaitAll(ctx); err != nil {
		return fmt.Errorf("wait for the clusters at the target: %w", err)
	}
	m.AvailableSeconds = round(time.Since(begin).Seconds())
	steps.next("")
	if m.Steps, err = steps.done, steps.err; err != nil {
		return err
	}
	for _, s := range m.Steps {
		m.CPUAtSource, m.CPUAtTarget, m.CPUOfClient = round(m.CPUAtSource+s.CPUAtSource), round(m.CPUAtTarget+s.CPUAtTarget), round(m.CPUOfClient+s.CPUOfClient)
	}
	after, err := b.snap(ctx)
	if err != nil {
		return err
	}
	thereAfter, err := to.settled(ctx)
	if err != nil {
		return err
	}
	here, arrived := after.requests.Since(before.requests), thereAfter.requests.Since(there.requests)
	m.RequestsPerObject = round((here.Sum(planes.Counted) + arrived.Sum(planes.Counted)) / float64(m.Objects))
	m.AtSource, m.AtTarget = here.Counts(planes.Counted), arrived.Counts(planes.Counted)
	m.Replaced = int(arrived.Sum(func(q planes.Request) bool {
		return q.Verb == "POST" && q.Resource == "machines.cluster.x-k8s.io" && q.Code == "201" && !q.DryRun
	})) - b.scenario.machines()
	return nil
}

// awaitAll waits until all clusters of the scenario exist and are Available.
func (b *bench) awaitAll(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		var list clusterv1.ClusterList
		err := b.mgmt.List(ctx, &list, client.InNamespace(namespace))
		ready := 0
		for _, c := range list.Items {
			if conditions.IsTrue(&c, clusterv1.AvailableCondition) && complete(&c) {
				ready++
			}
		}
		return ready == b.scenario.Clusters, err
	})
}

// stopwatch measures the steps of a move as it reports them: each lasts until the next
// one is reported.
type stopwatch struct {
	begin  time.Time
	planes []*planes.Process
	at     time.Time
	cpu    [3]float64 // of the planes and of this process when the step started
	done   []Step
	err    error
}

// next ends a step and starts the next one.
func (s *stopwatch) next(text string) {
	now, cpu := time.Now(), [3]float64{2: ownCPU()}
	for n, p := range s.planes {
		used, err := p.CPU()
		s.err = errors.Join(s.err, err)
		cpu[n] = used
	}
	if n := len(s.done); n > 0 {
		last := &s.done[n-1]
		last.Seconds = round(now.Sub(s.at).Seconds())
		last.CPUAtSource, last.CPUAtTarget, last.CPUOfClient = round(cpu[0]-s.cpu[0]), round(cpu[1]-s.cpu[1]), round(cpu[2]-s.cpu[2])
	}
	if text != "" {
		s.done = append(s.done, Step{Text: text})
	}
	s.at, s.cpu = now, cpu
}

// ownCPU is the processor time that this process has used, in seconds.
func ownCPU() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails only for invalid arguments
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
