// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// world simulates the MachineSets: it creates Machines, marks them ready and deletes
// them as the MachineSets specify.
type world struct {
	md      *clusterv1.MachineDeployment
	sets    []*played
	created int
}

type played struct {
	Set
	starting int // Machines that are not available yet
}

func (w *world) facts() Facts {
	f := Facts{Deployment: w.md, Now: epoch, Name: fmt.Sprintf("md-n%d", w.created+1), FieldOwner: "test"}
	for _, p := range w.sets {
		f.Sets = append(f.Sets, p.Set)
	}
	return f
}

func (w *world) apply(a Action) {
	switch a := a.(type) {
	case Create:
		w.created++
		a.Set.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(w.created) * time.Minute))
		w.sets = append(w.sets, &played{Set: Set{MachineSet: a.Set}})
	case Update:
		for _, p := range w.sets {
			if p.Name == a.Set.Name {
				p.MachineSet = a.Set
			}
		}
	case Delete:
		for i, p := range w.sets {
			if p.Name == a.Name {
				w.sets = append(w.sets[:i], w.sets[i+1:]...)
				return
			}
		}
	}
}

// work lets one MachineSet do one kind of thing; it reports whether it did any.
func (p *played) work(kind int) bool {
	spec := int(*p.Spec.Replicas)
	switch kind {
	case 0: // make Machines
		n := max(0, spec-p.Actual)
		p.Actual, p.starting = p.Actual+n, p.starting+n
		return n > 0
	case 1: // one becomes available
		if p.starting == 0 {
			return false
		}
		p.starting--
		p.Available++
		return true
	case 2: // delete Machines, those that are not available first
		n := max(0, p.Actual-p.Going-spec)
		early := min(n, p.starting)
		p.starting, p.Available, p.Going = p.starting-early, p.Available-(n-early), p.Going+n
		return n > 0
	default: // the deleted ones go
		n := p.Going
		p.Actual, p.Going = p.Actual-n, 0
		return n > 0
	}
}

// TestStory runs rollouts to rest and compares what happened with golden files
// that a reviewer can read.
func TestStory(t *testing.T) {
	t.Parallel()
	stories := map[string]*clusterv1.MachineDeployment{
		"rolling-surge-1":       deployment(3),
		"rolling-unavailable-1": deployment(3, pace("0", "1")),
		"rolling-half":          deployment(4, pace("50%", "50%")),
	}
	for name, md := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var story strings.Builder
			w := &world{md: md}
			for _, version := range []string{"v1", "v2"} {
				fmt.Fprintf(&story, "# template at %s\n", version)
				md.Spec.Template.Spec.Version = version
				for round := 1; ; round++ {
					acts := Plan(w.facts()).Actions
					for _, a := range acts {
						fmt.Fprintf(&story, "round %d: %s\n", round, a)
						w.apply(a)
					}
					moved := len(acts) > 0
					for kind := range 4 {
						for _, p := range w.sets {
							for p.work(kind) {
								moved = true
							}
						}
					}
					if !moved {
						break
					}
				}
			}
			builder.Golden(t, name+".txt", story.String())
		})
	}
}

// TestRolloutKeepsItsPromises rolls out in random interleavings: never more
// Machines than allowed, never fewer available ones, and it ends.
func TestRolloutKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		want := rnd.IntN(7) + 1
		md := deployment(int32(want), pace(fmt.Sprint(rnd.IntN(3)), fmt.Sprint(rnd.IntN(3))))
		surge, unavailable := Pace(md, want)
		w := &world{md: md}
		settle := func(check bool) {
			for idle, step := 0, 0; idle < 250; step++ {
				if step > 20000 {
					t.Fatalf("seed %d: no rest after %d steps", seed, step)
				}
				idle++
				for _, a := range Plan(w.facts()).Actions {
					w.apply(a)
					idle = 0
				}
				if len(w.sets) > 0 && w.sets[rnd.IntN(len(w.sets))].work(rnd.IntN(4)) {
					idle = 0
				}
				machines, available := 0, 0
				for _, p := range w.sets {
					machines, available = machines+p.Actual, available+p.Available
				}
				if machines > want+surge {
					t.Fatalf("seed %d: %d machines, want at most %d", seed, machines, want+surge)
				}
				if check && available < want-unavailable {
					t.Fatalf("seed %d: %d available, want at least %d", seed, available, want-unavailable)
				}
			}
		}
		md.Spec.Template.Spec.Version = "v1"
		settle(false)
		for _, version := range []string{"v2", "v3"} {
			md.Spec.Template.Spec.Version = version
			settle(true)
		}
		if len(w.sets) != 1 || w.sets[0].Available != want || w.sets[0].Spec.Template.Spec.Version != "v3" {
			t.Fatalf("seed %d: %d MachineSets at the end", seed, len(w.sets))
		}
	}
}
