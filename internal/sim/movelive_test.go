// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/move"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/conditions"
)

// planes are two management clusters whose controllers run while clusters move
// between them, on the same simulated machines.
type planes struct {
	t     *testing.T
	dice  *rand.Rand
	sides [2]*story
	// made is how many Machines and infrastructure machines the controllers of both
	// have created.
	made int
}

// newPlanes creates two, the first with a cluster.
func newPlanes(t *testing.T, seed uint64) *planes {
	t.Helper()
	w := New(t)
	w.store.made = 100_000 // no UID is part of another, as those of servers are not
	create(t, w, "plain", 1, 1)
	add(t, w, configMap("cni", "{apiVersion: v1, kind: ConfigMap, metadata: {name: cni, namespace: kube-system}}"))
	for _, set := range []string{"cni", "late"} { // what the second names is nowhere
		add(t, w, resourceSet(set, addonsv1.ClusterResourceSetStrategyReconcile, resource(addonsv1.ConfigMapClusterResourceSetResourceKind, set)))
	}
	label(t, w, "plain", "yes")
	check := workersHealth()
	check.Spec.ClusterName = "plain"
	add(t, w, check)
	other := begin(t, Options{Clock: w.Clock, Backends: w.machines, Tokens: 1000})
	other.store.made = 500_000
	p := &planes{t: t, dice: rand.New(rand.NewPCG(seed, 0)), sides: [2]*story{w, other}}
	w.must(w.World.Until(t.Context(), 10*time.Minute, func() bool { return p.available(w) }))
	w.RunFor(time.Minute)
	p.made = p.creations()
	return p
}

// available reports whether a side has the cluster, and all of it.
func (p *planes) available(w *story) bool {
	machines, clusters := w.objects("Machine"), w.objects("Cluster")
	return len(clusters) == 1 && len(machines) == 2 && conditions.IsTrue(clusters[0].(*clusterv1.Cluster), clusterv1.AvailableCondition)
}

// creations are those of controllers, at both sides.
func (p *planes) creations() (n int) {
	for _, w := range p.sides {
		for what, count := range w.store.by {
			by, what, _ := strings.Cut(what, ": ")
			if by != "" && slices.Contains([]string{"create Machine", "create LocalMachine"}, what) {
				n += count
			}
		}
	}
	return n
}

// work lets the controllers of both sides reconcile everything that is due.
func (p *planes) work() {
	p.t.Helper()
	for _, w := range p.sides {
		// What fails in the middle of a move is retried; at its end nothing may.
		if err := w.World.Run(p.t.Context()); errors.Is(err, errRestless) {
			p.t.Fatalf("%v:\n%s", err, w.Story())
		}
	}
}

// activeOnce checks both sides: what is at both has a copy that no controller
// reconciles, and an original that is paused, unless the copy is about to be
// removed again.
func (p *planes) activeOnce(when string) {
	p.t.Helper()
	item := plan.Item{Kind: plan.Kind{GroupVersionKind: clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind)}}
	active, marked := 0, false
	for _, w := range p.sides {
		for _, obj := range w.objects(clusterv1.ClusterKind) {
			u := w.unstructured(obj)
			marked = marked || plan.MarkOf(u).Operation != "" && plan.Paused(item, u)
			if !plan.Paused(item, u) {
				active++
			}
		}
	}
	if both := len(p.sides[0].objects(clusterv1.ClusterKind)) + len(p.sides[1].objects(clusterv1.ClusterKind)); active > 1 || both > 1 && active > 0 && !marked {
		p.t.Errorf("%s: the cluster is at %d sides, and active at %d", when, both, active)
	}
}

// move is a process that moves, or rolls back, and crashes after crashAfter writes; 0 is
// never. The controllers work after some of its writes, and while it waits.
func (p *planes) move(from, to *story, rollback bool, crashAfter int) error {
	wire := &wire{breaks: func(write int) bool { return write == crashAfter }}
	wire.after = func() {
		p.activeOnce(fmt.Sprintf("write %d", wire.writes))
		if p.dice.IntN(12) == 0 {
			p.work()
			p.activeOnce(fmt.Sprintf("write %d, when controllers had worked", wire.writes))
		}
	}
	return move.Run(p.t.Context(), move.Options{
		Source: cutPlane{move.NewPlane(from.Mgmt, "source"), wire}, Target: cutPlane{move.NewPlane(to.Mgmt, "target"), wire},
		Namespace: "default", By: "tester", Rollback: rollback, Parallel: 1, Clock: working{from.Clock, p.work},
	})
}

// working is a clock on which controllers work during waits.
type working struct {
	*Clock
	work func()
}

func (w working) After(d time.Duration) <-chan time.Time {
	w.work()
	return instant{w.Clock}.After(d)
}

// nodes are those of the cluster, as its management cluster reaches them: a machine
// that was created again has another one.
func (p *planes) nodes(w *story) map[string]types.UID {
	p.t.Helper()
	c, err := w.clusters.Client(p.t.Context(), client.ObjectKey{Namespace: "default", Name: "plain"})
	w.must(err)
	var list corev1.NodeList
	w.must(c.List(p.t.Context(), &list))
	all := map[string]types.UID{}
	for _, n := range list.Items {
		all[n.Name+" "+n.Spec.ProviderID+" "+n.Status.NodeInfo.BootID] = n.UID
	}
	return all
}

// rests checks that one side has the cluster unchanged, and the other nothing of
// it.
func (p *planes) rests(what string, has, hasNot *story, before map[string]types.UID) {
	p.t.Helper()
	for _, w := range p.sides {
		w.RunFor(2 * time.Minute) // and nothing fails
	}
	if !p.available(has) {
		p.t.Fatalf("%s: the cluster is not Available:\n%s", what, has.Story())
	}
	for _, kind := range []string{"Cluster", "LocalCluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine", "LocalMachine", "KubeadmConfig", "Secret", "ConfigMap", "ClusterResourceSet", "ClusterResourceSetBinding", "MachineHealthCheck"} {
		if left := hasNot.objects(kind); len(left) > 0 {
			p.t.Errorf("%s: %d %ss are left, as %s", what, len(left), kind, left[0].GetName())
		}
	}
	if d := cmp.Diff(before, p.nodes(has)); d != "" {
		p.t.Errorf("%s: Nodes (-before +after):\n%s", what, d)
	}
	if made := p.creations(); made != p.made {
		p.t.Errorf("%s: %d Machines and hosts were replaced", what, made-p.made)
	}
}

// TestAMoveBetweenPlanesThatWorkLosesNothing moves a cluster there and back, while
// the controllers of both sides work, by processes that crash at writes that a seed
// chooses and are resumed or rolled back as it chooses.
func TestAMoveBetweenPlanesThatWorkLosesNothing(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 2) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			p := newPlanes(t, seed)
			before, rolledBack, died := p.nodes(p.sides[0]), 0, 0
			for trip := range 2 {
				from, to := p.sides[trip], p.sides[1-trip]
				rollback, over := false, false
				for process := 0; !over; process++ {
					crashAfter := 0
					if process < 6 {
						crashAfter = 1 + p.dice.IntN(70)
					}
					err := p.move(from, to, rollback, crashAfter)
					switch {
					case err == nil && rollback:
						rolledBack++
						p.rests(fmt.Sprintf("trip %d, rolled back", trip+1), from, to, before)
						rollback = false
					case err == nil:
						over = true
					case strings.Contains(err.Error(), "every object has left source"):
						rollback = false
					case errors.Is(err, errReset):
						died++
						p.work()
						from.RunFor(time.Duration(p.dice.IntN(60)) * time.Second)
						// A rollback that has started must be continued.
						rollback = rollback || p.dice.IntN(3) == 0
					case strings.Contains(err.Error(), "continue with --rollback"):
						rollback = true
					case strings.Contains(err.Error(), "to roll back"): // it crashed before it started, or at the end
						rollback = false
					default:
						t.Fatalf("trip %d, process %d: %v", trip+1, process, err)
					}
				}
				p.rests(fmt.Sprintf("trip %d", trip+1), to, from, before)
			}
			t.Logf("%d processes crashed, %d times it was rolled back", died, rolledBack)
			if !complete() && (died == 0 || rolledBack == 0) {
				t.Errorf("seed %d does not test all: choose another default", seed)
			}
		})
	}
}
