// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
)

const (
	probeSucceeded = "True ProbeSucceeded: "
	notYet         = "False ProbeFailed: Remote connection not established yet"
)

func TestRemoteConnectionProbe(t *testing.T) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	failed := errors.New("connection refused")
	const long = "False ProbeFailed: Remote connection probe failed, probe last succeeded at 2026-01-01T11:00:00Z"
	tests := map[string]struct {
		initialized bool
		was         string // the condition before
		health      workload.Health
		want        string
		wantWake    time.Duration
	}{
		"a new cluster": {
			health: workload.Health{Since: ago(time.Second)}, want: notYet},
		"a new cluster whose server is not up yet": {
			was: notYet, health: workload.Health{Since: ago(time.Second), Failures: 3, Err: failed}, want: notYet},
		"a new cluster that is not reachable": {
			was: notYet, health: workload.Health{Since: ago(time.Minute), Failures: 8, Err: failed}, want: notYet + ": connection refused"},
		"a new cluster that was not reachable before a restart either": {
			was: notYet + ": connection refused", health: workload.Health{Since: ago(time.Second), Failures: 1, Err: errors.New("timeout")}, want: notYet + ": connection refused"},
		"a new cluster that is not reachable for another reason": {
			was: notYet + ": connection refused", health: workload.Health{Since: ago(time.Minute), Failures: 8, Err: errors.New("timeout")}, want: notYet + ": timeout"},
		"a cluster whose control plane came up before it answered us": {
			initialized: true, health: workload.Health{Since: ago(time.Second)}, want: notYet, wantWake: 49 * time.Second},
		"after a restart, before the first attempt": {
			initialized: true, was: probeSucceeded, health: workload.Health{Since: ago(time.Second)}, want: probeSucceeded, wantWake: 49 * time.Second},
		"after a restart, when the first attempts fail": {
			initialized: true, was: probeSucceeded, health: workload.Health{Since: ago(10 * time.Second), Failures: 9, Err: failed}, want: probeSucceeded, wantWake: 40 * time.Second},
		"after a restart, when no attempt succeeds": {
			initialized: true, was: probeSucceeded, health: workload.Health{Since: ago(50 * time.Second), Failures: 12, Err: failed}, want: notYet + ": connection refused"},
		"long after a restart, when the reason persists": {
			initialized: true, was: notYet, health: workload.Health{Since: ago(time.Minute), Failures: 8, Err: failed}, want: notYet + ": connection refused"},
		"after a restart, of a cluster that did not answer before it": {
			initialized: true, was: long, health: workload.Health{Since: ago(time.Hour), Failures: 99, Err: failed}, want: long},
		"a cluster that came back": {
			initialized: true, was: long, health: workload.Health{Since: ago(time.Hour), Connected: true, LastProbeSuccess: ago(time.Second)}, want: probeSucceeded},
		"a probe that failed": {
			initialized: true, was: probeSucceeded, health: workload.Health{Since: ago(time.Hour), Connected: true, LastProbeSuccess: ago(10 * time.Second), Failures: 1, Err: failed}, want: probeSucceeded, wantWake: 40 * time.Second},
		"a kubeconfig that has gone": {
			initialized: true, was: probeSucceeded, health: workload.Health{Since: ago(2 * time.Hour), LastProbeSuccess: ago(10 * time.Second), Err: failed}, want: probeSucceeded, wantWake: 40 * time.Second},
		"probes that fail for long": {
			initialized: true, was: probeSucceeded, health: workload.Health{Since: ago(2 * time.Hour), LastProbeSuccess: ago(time.Hour), Failures: 9, Err: failed}, want: long + ": connection refused"},
		"a cluster in steady state": {
			initialized: true, was: probeSucceeded, health: workload.Health{Since: ago(2 * time.Hour), Connected: true, LastProbeSuccess: ago(9 * time.Second)}, want: probeSucceeded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &state{cluster: newCluster(), now: now, health: tc.health}
			s.cluster.Status.Initialization.ControlPlaneInitialized = &tc.initialized
			if tc.was != "" {
				conditions.Set(s.cluster, ago(time.Hour), parse(tc.was))
			}
			f := s.facts(nil)
			clusterstatus.Report(f)
			got := conditions.Get(s.cluster, clusterv1.ClusterRemoteConnectionProbeCondition)
			if text := string(got.Status) + " " + got.Reason + ": " + got.Message; text != tc.want {
				t.Errorf("%s, want %s", text, tc.want)
			}
			var wake time.Duration
			if at := clusterstatus.Deadline(f); !at.IsZero() {
				wake = at.Sub(now)
			}
			if wake != tc.wantWake {
				t.Errorf("requeues after %s, want %s", wake, tc.wantWake)
			}
		})
	}
}

func parse(text string) metav1.Condition {
	head, message, _ := strings.Cut(text, ": ")
	status, reason, _ := strings.Cut(head, " ")
	return conditions.New(clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionStatus(status), reason, message)
}

func TestARestartWritesNothing(t *testing.T) {
	got, c, err := run(t, interceptor.Funcs{}, newCluster(), network(), brain())
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	counting := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			writes++
			return nil
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			writes++
			return nil
		},
	})
	started := now.Add(time.Hour)
	r := &Reconciler{
		Deps: deps.Deps{Mgmt: counting, Live: counting, Providers: provider.New(c, nil), Clock: testclock.NewFakePassiveClock(started.Add(time.Second)), Recorder: &events.FakeRecorder{}, Deprecated: true, Workload: connections{health: workload.Health{Since: started, Failures: 2, Err: errors.New("connection refused")}}},
	}
	got.Generation = 2 // the endpoint was set; an API server counts, the fake one does not
	res, err := r.Reconcile(t.Context(), got)
	if err != nil || writes != 0 || res.RequeueAfter != 49*time.Second {
		t.Errorf("%d writes, requeue after %s, error %v; want none, and a requeue when the grace ends", writes, res.RequeueAfter, err)
	}
}
