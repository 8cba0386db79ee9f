// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Namespace: "ns", Name: name} }

// wakings subscribes, and counts events.
func wakings(t *testing.T, c Clusters, obj client.Object) *atomic.Int32 {
	t.Helper()
	var n atomic.Int32
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	err := c.Source(obj, func(_ context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
		n.Add(1)
		return []reconcile.Request{{NamespacedName: cluster}}
	}).Start(t.Context(), queue)
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

func node(name, providerID, version string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-" + "x", ResourceVersion: version, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func TestNodesAreReadFromTheCacheByProviderID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.nodes = []corev1.Node{node("a", "simulated://a", "1"), node("b", "simulated://b", "1")}
		f := startFleet(t, map[string]*server{"demo": s})
		nodes, connection := wakings(t, f, &corev1.Node{}), wakings(t, f, nil)
		f.reconcile(t, "demo")
		synctest.Wait()

		c, err := f.Client(t.Context(), keyOf("demo"))
		if err != nil {
			t.Fatal(err)
		}
		before := s.count("/api/v1/nodes")
		var list corev1.NodeList
		if err := c.List(t.Context(), &list, client.MatchingFields{NodeByProviderID: "simulated://b"}); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Name != "b" || list.Items[0].ManagedFields != nil {
			t.Errorf("nodes %+v", list.Items)
		}
		if byNodes, byConnection := nodes.Load(), connection.Load(); byNodes != 0 || byConnection != 1 {
			t.Errorf("%d wakings by the first list and %d by the connection, want one by the connection", byNodes, byConnection)
		}

		heartbeat := node("a", "simulated://a", "2")
		heartbeat.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
		s.send("MODIFIED", heartbeat)
		synctest.Wait()
		if got := nodes.Load(); got != 0 {
			t.Errorf("a heartbeat triggered a reconcile: %d reconciles", got)
		}
		s.send("MODIFIED", node("a", "simulated://new", "3"))
		s.send("DELETED", node("b", "simulated://b", "4"))
		synctest.Wait()
		if got := nodes.Load(); got != 2 {
			t.Errorf("%d wakings after a change and a deletion, want 2", got)
		}
		var a corev1.Node
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &a); err != nil || a.ResourceVersion != "3" {
			t.Errorf("node a has version %s, %v", a.ResourceVersion, err)
		}
		if after := s.count("/api/v1/nodes"); after != before {
			t.Errorf("reading asked the server %d times", after-before)
		}
	})
}

func TestFirstConnectionIsRetriedSoonAndTriggersWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.down = true
		f := startFleet(t, map[string]*server{"demo": s})
		changes := wakings(t, f, nil)
		f.reconcile(t, "demo")
		time.Sleep(3 * time.Second)
		if _, err := f.Client(t.Context(), keyOf("demo")); !errors.Is(err, ErrNotConnected) {
			t.Fatalf("error %v", err)
		}
		if got := changes.Load(); got != 1 {
			t.Errorf("%d wakings while the same failure repeats, want 1", got)
		}
		if h := f.Health(keyOf("demo")); h.Connected || h.Err == nil || h.Failures < 4 || !strings.Contains(h.Err.Error(), "connection refused") {
			t.Errorf("health %+v", h)
		}
		s.set(func() { s.down = false })
		time.Sleep(1500 * time.Millisecond)
		if _, err := f.Client(t.Context(), keyOf("demo")); err != nil {
			t.Error(err)
		}
		if got := changes.Load(); got != 2 {
			t.Errorf("%d wakings, want 2", got)
		}
	})
}

func TestHealthReportsFirstRequestOfCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.down = true
		f := startFleet(t, map[string]*server{"demo": s})
		synctest.Wait()
		start := time.Now()
		time.Sleep(time.Minute)
		if h := f.Health(keyOf("demo")); !h.Since.Equal(start) {
			t.Errorf("not requested yet: since %s, want the start, %s", h.Since, start)
		}
		asked := time.Now()
		f.reconcile(t, "demo")
		time.Sleep(time.Minute)
		if h := f.Health(keyOf("demo")); !h.Since.Equal(asked) || !h.LastProbeSuccess.IsZero() {
			t.Errorf("it does not answer: %+v, want since %s", h, asked)
		}
		s.set(func() { s.down = false })
		time.Sleep(20 * time.Second)
		if h := f.Health(keyOf("demo")); !h.Since.Equal(asked) || h.LastProbeSuccess.IsZero() {
			t.Errorf("it answers: %+v, want since %s", h, asked)
		}
	})
}

func TestGraceStarts(t *testing.T) {
	start := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	probed := start.Add(time.Hour)
	tests := map[string]struct {
		health         Health
		answeredBefore bool
		want           time.Time
	}{
		"a cluster that never answered":                     {health: Health{Since: start}},
		"one that answered, but not this process":           {health: Health{Since: start}, answeredBefore: true, want: start},
		"one that answered this process":                    {health: Health{Since: start, LastProbeSuccess: probed}, answeredBefore: true, want: probed},
		"one that answers while its control plane comes up": {health: Health{Since: start, LastProbeSuccess: probed}, want: probed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.health.GraceStarts(tc.answeredBefore); !got.Equal(tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestHangingClusterDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, good := startServer(t), startServer(t)
		hanging.hangs = true
		f := startFleet(t, map[string]*server{"hanging": hanging, "good": good})
		f.reconcile(t, "hanging")
		f.reconcile(t, "good")
		synctest.Wait()
		if _, err := f.Client(t.Context(), keyOf("good")); err != nil {
			t.Error(err)
		}
		if _, err := f.Client(t.Context(), keyOf("hanging")); !errors.Is(err, ErrNotConnected) {
			t.Errorf("error %v", err)
		}
		time.Sleep(probeTimeout + time.Second)
		if h := f.Health(keyOf("hanging")); h.Failures == 0 || h.Err == nil {
			t.Errorf("health %+v", h)
		}
	})
}

func TestChangedKubeconfigReconnectsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.token = "first"
		f := startFleet(t, map[string]*server{"demo": s})
		f.reconcile(t, "demo")
		synctest.Wait()
		old, err := f.Config(keyOf("demo"))
		if err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.token = "second" })
		if err := f.mgmt.Update(t.Context(), kubeconfigOf("demo", "second")); err != nil {
			t.Fatal(err)
		}
		f.reconcile(t, "demo")
		synctest.Wait()
		fresh, err := f.Config(keyOf("demo"))
		if err != nil || fresh.BearerToken == old.BearerToken {
			t.Errorf("the old credentials are still in use: %v; %+v", err, f.Health(keyOf("demo")))
		}
	})
}

func TestUnauthorizedReconnectsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		f := startFleet(t, map[string]*server{"demo": s})
		f.reconcile(t, "demo")
		synctest.Wait()
		c, err := f.Client(t.Context(), keyOf("demo"))
		if err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.token = "second" })
		if err := f.mgmt.Update(t.Context(), kubeconfigOf("demo", "second")); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "x"}, &corev1.ConfigMap{}); err == nil {
			t.Fatal("the old token is still accepted")
		}
		synctest.Wait()
		if fresh, err := f.Config(keyOf("demo")); err != nil || fresh.BearerToken != "second" {
			t.Errorf("not reconnected: %v", err)
		}
	})
}

func TestConnectionIsGivenUpAfterFiveFailedProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		f := startFleet(t, map[string]*server{"demo": s})
		changes := wakings(t, f, nil)
		f.reconcile(t, "demo")
		synctest.Wait()
		connected := time.Now()
		s.set(func() { s.hangs = true })
		time.Sleep(40 * time.Second)
		h := f.Health(keyOf("demo"))
		if !h.Connected || h.Failures == 0 || h.LastProbeSuccess.Sub(connected).Abs() > time.Second {
			t.Errorf("after 40 s: %+v", h)
		}
		time.Sleep(50 * time.Second)
		if h := f.Health(keyOf("demo")); h.Connected || h.Failures < maxFailures {
			t.Errorf("after 90 s: %+v", h)
		}
		woken := changes.Load() // connected, first failure, connection closed
		if woken < 3 || woken > 4 {
			t.Errorf("%d wakings", woken)
		}
		s.set(func() { s.hangs = false })
		time.Sleep(20 * time.Second)
		if h := f.Health(keyOf("demo")); !h.Connected || h.Failures != 0 || h.Err != nil {
			t.Errorf("after recovery: %+v", h)
		}
	})
}

func TestHealthReportsStartOfFailureFreePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		f := startFleet(t, map[string]*server{"demo": s})
		f.reconcile(t, "demo")
		synctest.Wait()
		connected := time.Now()
		time.Sleep(time.Minute)
		if h := f.Health(keyOf("demo")); !h.Answering.Equal(connected) {
			t.Errorf("after a minute it answers since %s, want %s", h.Answering, connected)
		}
		for _, silence := range []time.Duration{20 * time.Second, 2 * time.Minute} { // on one connection, and past its end
			s.set(func() { s.hangs = true })
			time.Sleep(silence)
			if h := f.Health(keyOf("demo")); !h.Answering.IsZero() {
				t.Errorf("after %s of silence: %+v", silence, h)
			}
			back := time.Now()
			s.set(func() { s.hangs = false })
			time.Sleep(time.Minute)
			if h := f.Health(keyOf("demo")); h.Answering.Before(back) || h.Answering.After(back.Add(20*time.Second)) {
				t.Errorf("it is back since %s, and answers since %s", back, h.Answering)
			}
		}
	})
}

func TestClusterWithoutAVersionIsStillACluster(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			s := startServer(t)
			s.hostile = func(w http.ResponseWriter, r *http.Request) bool {
				switch r.URL.Path {
				case "/version":
					w.WriteHeader(status)
				case "/api/v1":
					_ = json.NewEncoder(w).Encode(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "nodes"}}})
				default:
					return false
				}
				return true
			}
			f := startFleet(t, map[string]*server{"demo": s})
			f.reconcile(t, "demo")
			time.Sleep(3 * probeInterval)
			if h := f.Health(keyOf("demo")); !h.Connected || h.Failures != 0 {
				t.Errorf("%d: %+v", status, h)
			}
		})
	}
}

func TestDeletedClusterIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		f := startFleet(t, map[string]*server{"demo": s})
		f.reconcile(t, "demo")
		synctest.Wait()
		if err := f.mgmt.Delete(t.Context(), clusterOf("demo")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * probeInterval)
		if _, err := f.Client(t.Context(), keyOf("demo")); !errors.Is(err, ErrNotConnected) || f.find(keyOf("demo")) != nil {
			t.Errorf("still kept: %v", err)
		}
	})
}

func TestBadAnswersAreNamedInHealth(t *testing.T) {
	tests := map[string]struct {
		change func(*server)
		secret []byte
		want   string
	}{
		"a web page instead of a version": {change: func(s *server) { s.version = "<html>hunter2</html>" }, want: "probe https://demo:6443/version: its answer is not that of a Kubernetes API server"},
		"an empty object":                 {change: func(s *server) { s.version = "{}" }, want: "its answer is not that of a Kubernetes API server"},
		"a web page behind a missing version": {change: func(s *server) {
			s.hostile = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/version" {
					w.WriteHeader(http.StatusNotFound)
				} else {
					_, _ = w.Write([]byte("<html>hunter2</html>"))
				}
				return true
			}
		}, want: "probe https://demo:6443/api/v1: its answer is not that of a Kubernetes API server"},
		"credentials it does not know": {change: func(s *server) { s.token = "other" }, want: "it answered 401 Unauthorized"},
		"an error that would paint the terminal": {change: func(s *server) {
			s.hostile = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/api/v1/nodes" {
					http.Error(w, "\x1b]0;owned\a\u202eno\nnodes "+strings.Repeat("x", 1000), http.StatusForbidden)
				}
				return r.URL.Path == "/api/v1/nodes"
			}
		}, want: `\x1b]0;owned\a\u202eno nodes xxx`},
		"rubbish in the Secret": {secret: []byte("hunter2"), want: `secret ns/demo-kubeconfig, key "value": it is not a kubeconfig; put a kubeconfig`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startServer(t)
				if tc.change != nil {
					tc.change(s)
				}
				f := startFleet(t, map[string]*server{"demo": s})
				if tc.secret != nil {
					secret := kubeconfigOf("demo", "x")
					secret.Data["value"] = tc.secret
					if err := f.mgmt.Update(t.Context(), secret); err != nil {
						t.Fatal(err)
					}
				}
				f.reconcile(t, "demo")
				synctest.Wait()
				h := f.Health(keyOf("demo"))
				if h.Err == nil || len(h.Err.Error()) > 2*maxError || !strings.Contains(h.Err.Error(), tc.want) || strings.Contains(h.Err.Error(), "hunter2") {
					t.Errorf("error %v, want %q", h.Err, tc.want)
				}
			})
		})
	}
}
