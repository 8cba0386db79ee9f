// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/extension/server"
)

// observer is an extension that records which hooks are called, and decides how
// long each blocks a Cluster.
type observer struct {
	*server.Server
	record func(format string, args ...any)
	hold   func(call string) (seconds int32)
	calls  []string
}

// newObserver answers all hooks of a Cluster's lifecycle, and blocks nothing.
func newObserver(t testing.TB) *observer {
	t.Helper()
	x := &observer{Server: newExtension(t), record: func(string, ...any) {}, hold: func(string) int32 { return 0 }}
	if err := errors.Join(
		observe(x, hooksv1.BeforeClusterCreate, func(*hooksv1.BeforeClusterCreateRequest) string { return "" }),
		observe(x, hooksv1.AfterControlPlaneInitialized, func(*hooksv1.AfterControlPlaneInitializedRequest) string { return "" }),
		observe(x, hooksv1.BeforeClusterUpgrade, func(r *hooksv1.BeforeClusterUpgradeRequest) string {
			return between(r.FromKubernetesVersion, r.ToKubernetesVersion, r.ControlPlaneUpgrades, r.WorkersUpgrades)
		}),
		observe(x, hooksv1.BeforeControlPlaneUpgrade, func(r *hooksv1.BeforeControlPlaneUpgradeRequest) string {
			return between(r.FromKubernetesVersion, r.ToKubernetesVersion, r.ControlPlaneUpgrades, r.WorkersUpgrades)
		}),
		observe(x, hooksv1.AfterControlPlaneUpgrade, func(r *hooksv1.AfterControlPlaneUpgradeRequest) string {
			return between("", r.KubernetesVersion, r.ControlPlaneUpgrades, r.WorkersUpgrades)
		}),
		observe(x, hooksv1.BeforeWorkersUpgrade, func(r *hooksv1.BeforeWorkersUpgradeRequest) string {
			return between(r.FromKubernetesVersion, r.ToKubernetesVersion, r.ControlPlaneUpgrades, r.WorkersUpgrades)
		}),
		observe(x, hooksv1.AfterWorkersUpgrade, func(r *hooksv1.AfterWorkersUpgradeRequest) string {
			return between("", r.KubernetesVersion, r.ControlPlaneUpgrades, r.WorkersUpgrades)
		}),
		observe(x, hooksv1.AfterClusterUpgrade, func(r *hooksv1.AfterClusterUpgradeRequest) string { return between("", r.KubernetesVersion, nil, nil) }),
		observe(x, hooksv1.BeforeClusterDelete, func(*hooksv1.BeforeClusterDeleteRequest) string { return "" }),
	); err != nil {
		t.Fatal(err)
	}
	return x
}

// as sets the extension of a World.
func (x *observer) as(o *Options) { o.Extension = x }

// observe registers a handler that does so.
func observe[Req, Resp any](x *observer, hook func(*Req, *Resp), about func(*Req) string) error {
	return server.Handle(x.Server, hook, func(_ context.Context, req *Req, resp *Resp) error {
		name := strings.TrimSuffix(any(req).(hooksv1.RequestObject).GetObjectKind().GroupVersionKind().Kind, "Request")
		call := strings.TrimSpace(name + " " + about(req))
		x.calls = append(x.calls, call)
		x.record("extension: %s", call)
		if blocking, can := any(resp).(hooksv1.RetryResponseObject); can {
			if seconds := x.hold(call); seconds > 0 {
				blocking.SetMessage("not yet")
				blocking.SetRetryAfterSeconds(seconds)
				x.record("extension: not yet, ask again in %d seconds", seconds)
			}
		}
		return nil
	})
}

// between describes the versions and the steps of an upgrade.
func between(from, to string, plane, workers []hooksv1.UpgradeStepInfo) string {
	text := to
	if from != "" {
		text = "from " + from + " to " + to
	}
	list := func(steps []hooksv1.UpgradeStepInfo) string {
		var all []string
		for _, s := range steps {
			all = append(all, s.Version)
		}
		return strings.Join(all, ", ")
	}
	if len(plane) > 0 {
		text += "; control plane by " + list(plane)
	}
	if len(workers) > 0 {
		text += "; workers by " + list(workers)
	}
	return text
}

// once holds each call up one time, for so long.
func once(seconds int32) func(string) int32 {
	held := map[string]bool{}
	return func(call string) int32 {
		if held[call] {
			return 0
		}
		held[call] = true
		return seconds
	}
}

// withObserver creates a World with a class and such an extension.
func withObserver(t *testing.T) (*story, *observer) {
	t.Helper()
	x := newObserver(t)
	w := newTopology(t, x.as)
	x.record = w.Record
	register(t, w, "ext")
	w.Run()
	return w, x
}

func TestACreationWaitsForItsHook(t *testing.T) {
	t.Parallel()
	w, x := withObserver(t)
	x.hold = once(60)
	w.Record("# a Cluster of it")
	w.create(fleetCluster)
	w.Run()
	topologyOf(t, w)
	if n := len(w.objects("LocalCluster")); n != 0 {
		t.Errorf("%d LocalClusters while the hook blocks", n)
	}
	w.RunFor(59 * time.Second)
	w.RunFor(5 * time.Second)
	topologyOf(t, w)
	w.RunFor(time.Minute)
	end(t, w)
	w.Golden("a-creation-waits-for-its-hook.txt")
}

func TestAnUpgradeOverThreeMinorsWaitsAtEachHook(t *testing.T) {
	t.Parallel()
	w, x := withObserver(t)
	w.create(fleetCluster)
	w.RunFor(2 * time.Minute)
	x.hold = once(60)
	change(t, w, "demo", &clusterv1.Cluster{}, "upgrade to v1.36.3", func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.36.3" })
	for range 12 {
		topologyOf(t, w)
		w.RunFor(time.Minute)
	}
	w.RunFor(10 * time.Minute)
	topologyOf(t, w)
	end(t, w)
	w.Golden("an-upgrade-over-three-minors-waits-at-each-hook.txt")
}

func TestADeletionWaitsForItsHook(t *testing.T) {
	t.Parallel()
	w, x := withObserver(t)
	w.create(fleetCluster)
	w.RunFor(2 * time.Minute)
	x.hold = once(60)
	w.Record("# delete the Cluster, and its class is gone")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "fleet", &clusterv1.ClusterClass{})))
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})))
	w.Run()
	topologyOf(t, w)
	w.RunFor(2 * time.Minute)
	left(w)
	w.Golden("a-deletion-waits-for-its-hook.txt")
}

// late is an extension at an address where nothing answers at first.
type late struct {
	http.Handler
	host  string
	comes bool
}

func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Host == l.host && !l.comes {
		http.NotFound(w, r)
		return
	}
	l.Handler.ServeHTTP(w, r)
}

// TestAnUpgradeWaitsForAnExtensionThatWasNeverDiscovered: it may have something
// against the upgrade.
func TestAnUpgradeWaitsForAnExtensionThatWasNeverDiscovered(t *testing.T) {
	t.Parallel()
	x := newObserver(t)
	l := &late{Handler: x, host: "late.example.com"}
	w := newWith(t, func(o *Options) { o.Extension = l })
	w.create(templates + fleetClass)
	w.Run()
	w.create(fleetCluster)
	w.RunFor(2 * time.Minute)
	register(t, w, "late")
	w.RunFor(time.Second)
	edit(t, w, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.34.2" })
	if err := w.World.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `ExtensionConfig "late" was never discovered`) {
		t.Errorf("got %v", err)
	}
	says := conditions.Get(get(t, w, "demo", &clusterv1.Cluster{}), clusterv1.ClusterTopologyReconciledCondition)
	if says == nil || says.Status != metav1.ConditionFalse || !strings.Contains(says.Message, `ExtensionConfig "late" was never discovered`) {
		t.Errorf("condition %+v", says)
	}
	if finished(t, w, 2, "v1.34.2") {
		t.Error("it does not wait")
	}
	l.comes = true
	w.must(w.World.Until(t.Context(), time.Hour, func() bool { return finished(t, w, 2, "v1.34.2") }))
	if !slices.ContainsFunc(x.calls, func(call string) bool { return strings.Contains(call, "BeforeClusterUpgrade") }) {
		t.Errorf("it was not asked: %q", x.calls)
	}
}
