// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/sim"
)

var (
	now  = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	demo = client.ObjectKey{Namespace: "default", Name: "demo"}
)

// running returns an Outside in which Cluster demo has control plane Machines that are
// Nodes, and what was read from its workload cluster.
func running(t *testing.T, clock *sim.Clock, from *Snapshot, controlPlane ...string) *Outside {
	t.Helper()
	o := Options{Clock: clock}
	if from != nil {
		o.Workloads = map[client.ObjectKey]*Snapshot{demo: from}
	}
	for _, name := range controlPlane {
		o.Objects = append(o.Objects, builder.Parse[clusterv1.Machine](t, fmt.Sprintf(`
metadata: {namespace: default, name: %[1]s, labels: {cluster.x-k8s.io/control-plane: ""}}
spec: {clusterName: demo, version: v1.36.0, providerID: 'x://%[1]s'}
status: {nodeRef: {name: %[1]s}}`, name)))
	}
	out, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pods are of an application with a budget that allows so many disruptions.
func pods(t *testing.T, allowed int) *Snapshot {
	t.Helper()
	s := &Snapshot{Objects: []client.Object{builder.Parse[policyv1.PodDisruptionBudget](t, fmt.Sprintf(
		"{metadata: {namespace: apps, name: budget}, spec: {selector: {matchLabels: {app: web}}}, status: {disruptionsAllowed: %d, desiredHealthy: 2, currentHealthy: 3}}", allowed))}}
	for _, name := range []string{"web-0", "web-1", "web-2", "other"} {
		pod := builder.Parse[corev1.Pod](t, "{metadata: {namespace: apps, name: "+name+", labels: {app: web}}, spec: {nodeName: w1}}")
		if name == "other" {
			pod.Labels = nil
		}
		s.Objects = append(s.Objects, pod)
	}
	return s
}

// TestEvictionFollowsBudgets evicts Pods in turn. Each step is a Pod, after so many
// seconds.
func TestEvictionFollowsBudgets(t *testing.T) {
	t.Parallel()
	type step struct {
		after   int
		pod     string
		refused bool
	}
	for name, tc := range map[string]struct {
		allowed int
		steps   []step
	}{
		"none is allowed":              {0, []step{{0, "web-0", true}, {3600, "web-0", true}, {0, "other", false}}},
		"one at a time":                {1, []step{{0, "web-0", false}, {0, "web-1", true}, {29, "web-1", true}, {1, "web-1", false}, {0, "web-2", true}, {30, "web-2", false}}},
		"two at a time":                {2, []step{{0, "web-0", false}, {10, "web-1", false}, {0, "web-2", true}, {20, "web-2", false}}},
		"a Pod without budget is free": {1, []step{{0, "web-0", false}, {0, "other", false}, {0, "web-1", true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := sim.NewClock(now)
			out := running(t, clock, pods(t, tc.allowed), "cp1")
			c, err := out.workloads.Client(t.Context(), demo)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range tc.steps {
				clock.SetTime(clock.Now().Add(time.Duration(s.after) * time.Second))
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: s.pod}}
				err := c.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{})
				exists := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}) == nil
				if exists != s.refused || apierrors.IsTooManyRequests(err) != s.refused || err != nil && !s.refused {
					t.Errorf("step %d, Pod %s: exists %t, error %v", i, s.pod, exists, err)
				}
				if cause, is := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause); s.refused && (!is || !strings.Contains(cause.Message, "budget needs 2 healthy pods and has 3")) {
					t.Errorf("step %d: cause %v", i, cause)
				}
			}
		})
	}
}

func TestEvictionOfAPodThatDoesNotExist(t *testing.T) {
	t.Parallel()
	out := running(t, sim.NewClock(now), nil, "cp1")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "none"}}
	if err := out.workloads.get(demo).api.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}); !apierrors.IsNotFound(err) {
		t.Errorf("error %v", err)
	}
}

// TestNodeIsThatOfTheWorkloadCluster checks that the Node which was read wins over
// what the Machine reports.
func TestNodeIsThatOfTheWorkloadCluster(t *testing.T) {
	t.Parallel()
	read := builder.Parse[corev1.Node](t, "{metadata: {name: cp1, labels: {mine: x}}, status: {conditions: [{type: Ready, status: 'False'}]}}")
	out := running(t, sim.NewClock(now), &Snapshot{Objects: []client.Object{read}}, "cp1", "cp2")
	c := out.workloads.get(demo).api
	for name, ready := range map[string]corev1.ConditionStatus{"cp1": corev1.ConditionFalse, "cp2": corev1.ConditionTrue} {
		n := &corev1.Node{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, n); err != nil {
			t.Fatal(err)
		}
		if n.Status.Conditions[0].Type != corev1.NodeReady || n.Status.Conditions[0].Status != ready || (n.Labels["mine"] != "") != (name == "cp1") {
			t.Errorf("Node %s: %v, labels %v", name, n.Status.Conditions, n.Labels)
		}
	}
}

// TestPodsGoWithTheirNode deletes a Node.
func TestPodsGoWithTheirNode(t *testing.T) {
	t.Parallel()
	from := pods(t, 0)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	from.Objects = append(from.Objects, node)
	c := running(t, sim.NewClock(now), from, "cp1").workloads.get(demo).api
	if err := c.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	var left corev1.PodList
	if err := c.List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	for _, pod := range left.Items {
		if pod.Spec.NodeName != "cp1" {
			t.Errorf("Pod %s exists on %s", pod.Name, pod.Spec.NodeName)
		}
	}
	if len(left.Items) != 4 {
		t.Errorf("%d Pods, want those of the control plane", len(left.Items))
	}
}

// TestEtcdFollowsMachines removes members, and stops the machines of others.
func TestEtcdFollowsMachines(t *testing.T) {
	t.Parallel()
	w := running(t, sim.NewClock(now), nil, "cp1", "cp2", "cp3").workloads
	connect := func(nodes ...string) (etcd.Client, error) {
		return w.Connect(t.Context(), etcd.Target{Cluster: demo.String(), Nodes: nodes})
	}
	e, err := connect("cp2")
	if err != nil {
		t.Fatal(err)
	}
	members, err := e.Members(t.Context())
	if err != nil || len(members) != 3 {
		t.Fatalf("members %v, error %v", members, err)
	}
	ids := map[string]uint64{}
	for _, m := range members {
		ids[m.Name] = m.ID
	}
	leader := func() uint64 {
		t.Helper()
		s, err := e.Status(t.Context())
		if err != nil || s.Member != ids["cp2"] {
			t.Fatalf("status %v, error %v", s, err)
		}
		return s.Leader
	}
	if got := leader(); got != ids["cp1"] {
		t.Errorf("leader %d, want that of cp1", got)
	}
	if err := errors.Join(e.MoveLeader(t.Context(), ids["cp3"]), e.Remove(t.Context(), ids["cp1"])); err != nil || leader() != ids["cp3"] {
		t.Errorf("error %v, leader %d, want that of cp3", err, leader())
	}
	if err := e.Remove(t.Context(), ids["cp3"]); err != nil || leader() != ids["cp2"] {
		t.Errorf("error %v, leader %d, want that of cp2", err, leader())
	}
	if _, err := connect("cp1"); err == nil || !strings.Contains(err.Error(), "cp1") {
		t.Errorf("a removed member: error %v", err)
	}
	if err := w.get(demo).leave(t.Context(), "cp2"); err != nil {
		t.Fatal(err)
	}
	if _, err := connect("cp2"); err == nil {
		t.Error("etcd answers without quorum")
	}
}

// TestClusterIsConnectedWithQuorum stops machines in turn.
func TestClusterIsConnectedWithQuorum(t *testing.T) {
	t.Parallel()
	w := running(t, sim.NewClock(now), nil, "cp1", "cp2", "cp3").workloads
	for i, connected := range []bool{true, true, false, false} {
		_, err := w.Client(t.Context(), demo)
		h := w.Health(demo)
		if (err == nil) != connected || h.Connected != connected || errors.Is(err, workload.ErrNotConnected) == connected {
			t.Errorf("%d of 3 machines stopped: error %v, health %+v", i, err, h)
		}
		if err := w.get(demo).leave(t.Context(), fmt.Sprint("cp", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Client(t.Context(), client.ObjectKey{Namespace: "default", Name: "new"}); !errors.Is(err, workload.ErrNotConnected) {
		t.Errorf("a cluster without machines: error %v", err)
	}
}

// TestConfigCannotDial checks that the configuration of a workload cluster opens no
// connection, not even to a listener that exists.
func TestConfigCannotDial(t *testing.T) {
	t.Parallel()
	cfg, err := running(t, sim.NewClock(now), nil, "cp1").workloads.Config(demo)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if c, err := cfg.Dial(t.Context(), "tcp", l.Addr().String()); c != nil || err == nil {
		t.Errorf("connection %v, error %v", c, err)
	}
	if !strings.HasSuffix(cfg.Host, ".invalid") {
		t.Errorf("host %s", cfg.Host)
	}
}

// poster is an extension with a fixed answer.
type poster struct {
	answer string
	err    error
	calls  int
}

func (p *poster) Post(context.Context, transport.Endpoint, string, []byte) ([]byte, error) {
	p.calls++
	return []byte(p.answer), p.err
}

func (p *poster) Probe(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	return p.Post(ctx, e, path, body)
}

func (*poster) Forget(transport.Endpoint) {}

// TestHooksAreRecordedOrAsked calls each hook with and without extensions.
func TestHooksAreRecordedOrAsked(t *testing.T) {
	t.Parallel()
	const version = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
	for _, hook := range []string{
		"BeforeClusterCreate", "AfterControlPlaneInitialized", "BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
		"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade", "BeforeClusterDelete", "UpdateMachine",
		"GeneratePatches", "ValidateTopology", "DiscoverVariables", "CanUpdateMachine", "CanUpdateMachineSet",
	} {
		for name, real := range map[string]*poster{"no extension": nil, "an extension": {answer: "real"}, "an extension that fails": {err: errors.New("no route")}} {
			clock := sim.NewClock(now)
			o := Options{Clock: clock}
			if real != nil {
				o.Extensions = real
			}
			out, err := New(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			clock.SetTime(now.Add(time.Minute))
			e := transport.Endpoint{URL: "https://ext.example"}
			answer, err := out.hooks.Post(t.Context(), e, "/"+version+"/"+strings.ToLower(hook)+"/handler", []byte(`{"apiVersion":"`+version+`","kind":"`+hook+`Request"}`))
			decides := slices.Contains(decisive, hook)
			switch {
			case !decides:
				var got map[string]any
				if yaml.Unmarshal(answer, &got) != nil || err != nil || got["status"] != "Success" || got["kind"] != hook+"Response" || out.NotAsked() != "" || real != nil && real.calls > 0 {
					t.Errorf("%s, %s: answer %s, error %v, not asked %q", hook, name, answer, err, out.NotAsked())
				}
				if calls := out.Hooks(); len(calls) != 1 || calls[0].Hook != hook || calls[0].Handler != "handler" || calls[0].After.Duration != time.Minute {
					t.Errorf("%s, %s: calls %v", hook, name, calls)
				}
			case real != nil && real.err == nil:
				if string(answer) != "real" || err != nil || real.calls != 1 || out.NotAsked() != "" {
					t.Errorf("%s, %s: answer %s, error %v, not asked %q", hook, name, answer, err, out.NotAsked())
				}
			default:
				if err == nil || !strings.HasPrefix(out.NotAsked(), "hook "+hook+": ") || !strings.Contains(out.NotAsked(), err.Error()) || len(out.Hooks()) > 0 {
					t.Errorf("%s, %s: answer %s, error %v, not asked %q", hook, name, answer, err, out.NotAsked())
				}
			}
		}
	}
}

func TestHooksRefuseWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	out := running(t, sim.NewClock(now), nil)
	if _, err := out.hooks.Post(t.Context(), transport.Endpoint{URL: "https://ext.example"}, "/", []byte("{")); err == nil || !strings.Contains(err.Error(), "ext.example") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff("", out.NotAsked()); diff != "" {
		t.Error(diff)
	}
}

// TestUpdateOfAMachineTakesTime updates two Machines, the first one twice.
func TestUpdateOfAMachineTakesTime(t *testing.T) {
	t.Parallel()
	const version = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
	for boot, takes := range map[time.Duration]int{0: 10, 3 * time.Second: 10, time.Minute: 60} {
		clock := sim.NewClock(now)
		out, err := New(t.Context(), Options{Clock: clock, Boot: boot})
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range []struct {
			passes  time.Duration
			machine string
			again   int
			busy    bool
			calls   int
		}{
			{0, "a", takes, true, 1},
			{500 * time.Millisecond, "a", takes, true, 1},
			{500 * time.Millisecond, "b", takes, true, 2},
			{time.Duration(takes-1) * time.Second, "a", 0, true, 2},
			{time.Second, "b", 0, false, 2},
			{0, "a", takes, true, 3},
		} {
			clock.SetTime(clock.Now().Add(step.passes))
			body := fmt.Sprintf(`{"apiVersion":%q,"kind":"UpdateMachineRequest","desired":{"machine":{"metadata":{"name":"m","uid":%q}}}}`, version, step.machine)
			answer, err := out.hooks.Post(t.Context(), transport.Endpoint{URL: "https://ext.example"}, "/"+version+"/updatemachine/handler", []byte(body))
			var got struct{ RetryAfterSeconds int }
			if err := errors.Join(err, yaml.Unmarshal(answer, &got)); err != nil || got.RetryAfterSeconds != step.again || out.Busy() != step.busy || len(out.Hooks()) != step.calls {
				t.Errorf("boot %s, step %d: answer %s, error %v, busy %t, %d calls; want %+v", boot, i, answer, err, out.Busy(), len(out.Hooks()), step)
			}
		}
	}
}
