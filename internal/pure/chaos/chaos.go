// SPDX-License-Identifier: Apache-2.0

// Package chaos plans random faults of simulated clusters, and sets them on and removes
// them from the objects of the clusters.
package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// Options is the input of a plan, in addition to the clusters.
type Options struct {
	// Seed determines all random decisions.
	Seed uint64 `json:"seed"`
	// For is the duration of the plan. At its end no fault remains.
	For metav1.Duration `json:"for"`
	// Every is the average time from one incident to the next.
	Every metav1.Duration `json:"every"`
	// LoseDisks lets machines lose their disks, at most one in each cluster. Such a
	// machine stays broken until it is replaced.
	LoseDisks bool `json:"loseDisks,omitempty"`
}

// Cluster is the infrastructure of a cluster, with its machines.
type Cluster struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"` // of the LocalCluster
	Machines  []Machine `json:"machines"`
}

// Machine is a LocalMachine.
type Machine struct {
	Name         string    `json:"name"`
	Created      time.Time `json:"created"`
	ControlPlane bool      `json:"controlPlane,omitempty"`
	Booted       bool      `json:"booted,omitempty"`
}

// The kinds of objects that faults are set on.
const (
	LocalCluster = "LocalCluster"
	LocalMachine = "LocalMachine"
)

// Step sets a fault on an object or removes it.
type Step struct {
	At        metav1.Duration `json:"at"` // since the start of the plan
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Fault     string          `json:"fault"`
	Ends      bool            `json:"ends,omitempty"`
}

func (s Step) String() string {
	verb := "begins"
	if s.Ends {
		verb = "ends"
	}
	return fmt.Sprintf("%s %s/%s: %s %s", s.Kind, s.Namespace, s.Name, s.Fault, verb)
}

// How long an incident lasts, at most a quarter of the plan, and how long a flapping
// machine keeps its state.
const (
	shortest, longest         = 5 * time.Second, 5 * time.Minute
	shortestFlap, longestFlap = time.Second, 20 * time.Second
)

// incident is something that can happen to a cluster or to some of its machines.
type incident struct {
	ofCluster infrav1.ClusterFault // or
	ofMachine infrav1.MachineFault
	machines  func(Machine) bool // to one of these machines; all if nil
	most      bool               // to most of them together, so that quorum is lost
	flaps     bool               // the fault is set and removed repeatedly
}

var (
	controlPlane = func(m Machine) bool { return m.ControlPlane }
	unborn       = func(m Machine) bool { return !m.Booted }
)

// incidents all have the same probability.
var incidents = []incident{
	{ofMachine: infrav1.MachineFaultNeverBoots, machines: unborn},
	{ofMachine: infrav1.MachineFaultPoweredOff},
	{ofMachine: infrav1.MachineFaultDiskLost},
	{ofMachine: infrav1.MachineFaultNodeNotReady},
	{ofMachine: infrav1.MachineFaultNodeNotReady, flaps: true},
	{ofMachine: infrav1.MachineFaultAPIServerHangs, machines: controlPlane},
	{ofMachine: infrav1.MachineFaultEtcdUnhealthy, machines: controlPlane},
	{ofMachine: infrav1.MachineFaultEtcdUnhealthy, machines: controlPlane, most: true},
	{ofMachine: infrav1.MachineFaultEtcdLags, machines: controlPlane},
	{ofMachine: infrav1.MachineFaultEtcdDiskFull, machines: controlPlane},
	{ofCluster: infrav1.ClusterFaultMachinesNeverBoot},
	{ofCluster: infrav1.ClusterFaultAPIServerHangs},
	{ofCluster: infrav1.ClusterFaultAPIServerRefuses},
	{ofCluster: infrav1.ClusterFaultAPIServerSlow},
	{ofCluster: infrav1.ClusterFaultWatchesLost},
	{ofCluster: infrav1.ClusterFaultClockAhead},
	{ofCluster: infrav1.ClusterFaultClockBehind},
}

// Plan returns the faults and their times, in order of time. The same options and
// clusters have the same plan, regardless of the order of the clusters. Machines are
// ordered by creation time: their names are random.
//
// Each fault that starts also ends, and none starts on an object that still has it from
// the plan. Disks are lost only with LoseDisks, one in each cluster, and on a control
// plane only if two thirds of its etcd remain.
func Plan(o Options, clusters []Cluster) []Step {
	if len(clusters) == 0 || o.For.Duration < shortest || o.Every.Duration <= 0 {
		return nil
	}
	p := &planner{dice: dice(o.Seed), options: o, busy: map[Step]time.Duration{}, lost: map[int]bool{}}
	for _, c := range clusters {
		c.Machines = slices.SortedFunc(slices.Values(c.Machines), func(a, b Machine) int {
			return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
		})
		p.clusters = append(p.clusters, c)
	}
	slices.SortFunc(p.clusters, func(a, b Cluster) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	pause := func() time.Duration { return p.between(time.Millisecond, max(2*o.Every.Duration, time.Millisecond)) }
	for at := pause(); at < o.For.Duration-shortest; at += pause() {
		p.happen(at)
	}
	slices.SortStableFunc(p.steps, func(a, b Step) int { return cmp.Compare(a.At.Duration, b.At.Duration) })
	return p.steps
}

type planner struct {
	dice
	options  Options
	clusters []Cluster
	steps    []Step
	busy     map[Step]time.Duration // until when an object has a fault
	lost     map[int]bool           // clusters in which a machine has lost its disk
}

// happen plans one incident, if the dice select a target that it can happen to.
func (p *planner) happen(at time.Duration) {
	in, n := incidents[p.below(len(incidents))], p.below(len(p.clusters))
	end := min(at+p.between(shortest, max(min(longest, p.options.For.Duration/4), shortest)), p.options.For.Duration)
	c := p.clusters[n]
	if in.ofCluster != "" {
		p.last(Step{Kind: LocalCluster, Namespace: c.Namespace, Name: c.Name, Fault: string(in.ofCluster)}, at, end)
		return
	}
	could := slices.DeleteFunc(slices.Clone(c.Machines), func(m Machine) bool { return in.machines != nil && !in.machines(m) })
	if in.ofMachine == infrav1.MachineFaultDiskLost {
		could = p.mayLose(n, could)
	}
	if len(could) == 0 {
		return
	}
	many := 1
	if in.most {
		many = len(could)/2 + 1
	}
	p.lost[n] = p.lost[n] || in.ofMachine == infrav1.MachineFaultDiskLost
	for range many {
		m := p.below(len(could))
		s := Step{Kind: LocalMachine, Namespace: c.Namespace, Name: could[m].Name, Fault: string(in.ofMachine)}
		could = slices.Delete(could, m, m+1)
		if in.flaps {
			p.flap(s, at, end)
		} else {
			p.last(s, at, end)
		}
	}
}

// mayLose returns the machines of a cluster of which one may lose its disk.
func (p *planner) mayLose(cluster int, machines []Machine) []Machine {
	if !p.options.LoseDisks || p.lost[cluster] {
		return nil
	}
	members := 0
	for _, m := range machines {
		if m.ControlPlane {
			members++
		}
	}
	return slices.DeleteFunc(machines, func(m Machine) bool { return m.ControlPlane && members < 3 })
}

// last plans a fault from begin to end.
func (p *planner) last(s Step, begin, end time.Duration) {
	if until, known := p.busy[s]; known && begin <= until {
		return
	}
	p.busy[s] = end
	s.At.Duration = begin
	p.steps = append(p.steps, s)
	s.At.Duration, s.Ends = end, true
	p.steps = append(p.steps, s)
}

// flap plans a fault that is set and removed repeatedly.
func (p *planner) flap(s Step, begin, end time.Duration) {
	for begin < end {
		until := min(begin+p.between(shortestFlap, longestFlap), end)
		p.last(s, begin, until)
		begin = until + p.between(shortestFlap, longestFlap)
	}
}

// dice return the same numbers for the same seed, in every release: SplitMix64, by
// Steele, Lea and Flood.
type dice uint64

func (d *dice) roll() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (d *dice) below(n int) int { return int(d.roll() % uint64(n)) }

// between returns whole milliseconds, so that a record is exact.
func (d *dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.below(int((high-low)/time.Millisecond)+1))*time.Millisecond
}
