// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/bench/providers"
)

// bench is one run of a scenario.
type bench struct {
	scenario    *Scenario
	binary, dir string
	flags       []string
	profiler    planes.Profiler
	containers  string // folder of container machines; "" without

	plane  *planes.Process
	config *rest.Config
	mgmt   client.WithWatch
	raw    rest.Interface
	// profiled is the address at which the plane serves profiles; "" is none.
	profiled string

	extensions *manyExtensions // nil without
}

// snapshot is the counters at one moment.
type snapshot struct {
	cpu      float64
	requests planes.Requests
}

func (b *bench) run(ctx context.Context) (_ *Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.scenario.timeout())
	defer cancel()
	r := &Result{Scenario: *b.scenario}
	if err := b.plain(ctx, r); err != nil {
		return nil, err
	}
	if err := b.up(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if b.plane != nil { // otherwise a restart failed
			err = errors.Join(err, b.plane.Stop())
		}
	}()
	r.ReadySeconds = round(b.plane.Ready.Seconds())
	for _, step := range []func(context.Context, *Result) error{b.register, b.makeClass, b.watchOld, b.create, b.compare, b.watchOver} {
		if err := step(ctx, r); err != nil {
			return nil, err
		}
	}
	steps := []func(context.Context, *Result) error{b.addons, b.definitions, b.idle, b.footprint, b.providers, b.look, b.fail, b.updateInPlace, b.editClass}
	if b.scenario.Restart {
		steps = append(steps, b.restart)
	}
	if b.scenario.Delete {
		steps = append(steps, b.delete)
	}
	steps = append(steps, b.move)
	for _, step := range steps {
		if err := step(ctx, r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// up starts the plane on the run's data directory and connects to it.
func (b *bench) up(ctx context.Context) (err error) {
	var flags []string
	profiler := b.profiler
	if b.scenario.Providers > 0 && profiler.Dir == "" {
		profiler.Dir = b.dir // nothing is written: the address for garbage collections is the same
	}
	if b.profiled, flags, err = profiler.Flags(); err != nil {
		return err
	}
	if b.plane, err = planes.Start(ctx, b.binary, b.dir, slices.Concat(b.flags, flags)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.plane.Stop())
			b.plane = nil
		}
	}()
	if b.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(b.dir, "kubeconfig")); err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	b.config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), runtimev1.AddToScheme(scheme), addonsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	if b.mgmt, err = client.NewWithWatch(b.config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect to the plane: %w", err)
	}
	d, err := discovery.NewDiscoveryClientForConfig(b.config)
	if err != nil {
		return err
	}
	b.raw = d.RESTClient()
	return nil
}

func (b *bench) snap(ctx context.Context) (snapshot, error) {
	cpu, err := b.plane.CPU()
	if err != nil {
		return snapshot{}, err
	}
	q, err := planes.Scrape(ctx, b.raw)
	return snapshot{cpu, q}, err
}

// settled is a snapshot once the operations in progress have reached steady state.
func (b *bench) settled(ctx context.Context) (snapshot, error) {
	if err := planes.Pause(ctx, seconds(b.scenario.SettleSeconds)); err != nil {
		return snapshot{}, err
	}
	return b.snap(ctx)
}

// create measures from the first cluster to all of them Available, and the remaining work
// until steady state.
func (b *bench) create(ctx context.Context, r *Result) error {
	before, err := b.snap(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	took, err := b.createAll(ctx)
	if err != nil {
		return err
	}
	r.WallSeconds = round(time.Since(begin).Seconds())
	r.Clusters = summarise(took)
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	n := float64(b.scenario.Clusters)
	q := after.requests.Since(before.requests)
	r.CPUSeconds, r.CPUSecondsPerCluster = round(after.cpu-before.cpu), round((after.cpu-before.cpu)/n)
	r.Requests, r.RequestsPerCluster = q.Sum(planes.Counted), round(q.Sum(planes.Counted)/n)
	r.Writes, r.WritesPerCluster = q.Sum(planes.IsWrite), round(q.Sum(planes.IsWrite)/n)
	r.Conflicts = q.Sum(planes.IsConflict)
	r.ByVerbAndResource = q.Counts(planes.Counted)
	r.PeakMiB = b.plane.Peak.Load() >> 20
	made := q.Sum(func(q planes.Request) bool {
		return q.Verb == "POST" && q.Resource == "machines.cluster.x-k8s.io" && q.Code == "201" && !q.DryRun
	})
	r.MachinesCreated, r.MachinesReplaced = int(made), int(made)-b.scenario.machines()
	return nil
}

// idle measures a window in which nothing should happen.
func (b *bench) idle(ctx context.Context, r *Result) error {
	if b.scenario.IdleSeconds == 0 {
		return nil
	}
	w, d := &r.Idle, seconds(b.scenario.IdleSeconds)
	recorded, err := planes.Recorded(ctx, b.raw)
	if err != nil {
		return err
	}
	before, err := b.snap(ctx)
	if err != nil {
		return err
	}
	if err := planes.Pause(ctx, d); err != nil {
		return err
	}
	after, err := b.snap(ctx)
	if err != nil {
		return err
	}
	now, err := planes.Recorded(ctx, b.raw)
	if err != nil {
		return err
	}
	w.Decisions, r.Decisions = now.Count-recorded.Count, now
	q := after.requests.Since(before.requests)
	w.Seconds, w.Cores = d.Seconds(), round((after.cpu-before.cpu)/d.Seconds())
	w.Requests, w.Writes = q.Sum(planes.Counted), q.Counts(planes.IsWrite)
	if now, err := b.plane.Resident(); err == nil {
		w.MiB = now >> 20
	}
	return nil
}

// providers measures the cost of providers that the plane runs.
func (b *bench) providers(ctx context.Context, r *Result) (err error) {
	if b.scenario.Providers == 0 {
		return nil
	}
	p := providers.Bench{
		Capstan: b.binary, Dir: b.dir, PID: b.plane.PID(), Profiles: b.profiled, Config: b.config,
		Count: b.scenario.Providers, Settle: seconds(b.scenario.SettleSeconds), Window: seconds(b.scenario.IdleSeconds),
	}
	r.Providers, err = p.Run(ctx)
	return err
}

// restart counts the writes of a plane that finds everything in its desired state.
func (b *bench) restart(ctx context.Context, r *Result) error {
	begin := time.Now()
	err := b.plane.Stop()
	b.plane = nil
	if err != nil {
		return err
	}
	r.Restart.StopSeconds = round(time.Since(begin).Seconds())
	if b.extensions != nil {
		b.extensions.forget()
	}
	begin = time.Now()
	if err := b.up(ctx); err != nil {
		return err
	}
	if err := b.warmUp(ctx, begin, r); err != nil {
		return err
	}
	r.Restart.ReadySeconds = round(b.plane.Ready.Seconds())
	if err := planes.Pause(ctx, seconds(cmp.Or(b.scenario.SettleSeconds, 5))); err != nil {
		return err
	}
	after, err := b.snap(ctx) // counters started at zero with the process
	if err != nil {
		return err
	}
	r.Restart.CPUSeconds = round(after.cpu)
	r.Restart.Writes = after.requests.Counts(planes.IsWrite)
	r.Restart.PeakMiB = b.plane.Peak.Load() >> 20
	return nil
}
