// SPDX-License-Identifier: Apache-2.0

// Package chaos plans what goes wrong at random with simulated clusters, and
// says how it is set on their objects and taken back.
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

// Options is what a plan is made of, besides what there is.
type Options struct {
	// Seed decides all that is random.
	Seed uint64 `json:"seed"`
	// For is how long it lasts: at its end nothing is wrong any more.
	For metav1.Duration `json:"for"`
	// Every is how long it is, on average, from one incident to the next.
	Every metav1.Duration `json:"every"`
	// LoseDisks has machines lose their disks, one in each cluster at most: what
	// is not replaced then stays broken.
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

// Step sets a fault on an object, or takes it away.
type Step struct {
	At        metav1.Duration `json:"at"` // since the beginning
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

// How long an incident lasts, which is a quarter of all at most, and how long a machine that flaps stays as it is.
const (
	shortest, longest         = 5 * time.Second, 5 * time.Minute
	shortestFlap, longestFlap = time.Second, 20 * time.Second
)

// incident is something that may happen, to a cluster or to some of its machines.
type incident struct {
	ofCluster infrav1.ClusterFault // or
	ofMachine infrav1.MachineFault
	machines  func(Machine) bool // to one of these; all if nil
	most      bool               // to most of them at once, so that a quorum is lost
	flaps     bool               // it comes and goes
}

var (
	controlPlane = func(m Machine) bool { return m.ControlPlane }
	unborn       = func(m Machine) bool { return !m.Booted }
)

// incidents are as likely as each other.
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

// Plan says what goes wrong when, in order of time. The same options and the same
// clusters have the same plan, in whatever order they are told. Machines count in
// the order in which they were made: their names are random.
//
// Each fault that begins ends, and none begins on an object that has it from the
// plan already. Disks are lost only if that is wanted, one in each cluster, and on
// a control plane only if two thirds of its etcd remain.
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

// happen lets one incident begin, if the dice find what it can happen to.
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

// mayLose are the machines of a cluster of which one may lose its disk.
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

// last plans that a fault lasts.
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

// flap plans that a fault comes and goes.
func (p *planner) flap(s Step, begin, end time.Duration) {
	for begin < end {
		until := min(begin+p.between(shortestFlap, longestFlap), end)
		p.last(s, begin, until)
		begin = until + p.between(shortestFlap, longestFlap)
	}
}

// dice give the same numbers for the same seed, for ever: SplitMix64, of Steele,
// Lea and Flood.
type dice uint64

func (d *dice) roll() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (d *dice) below(n int) int { return int(d.roll() % uint64(n)) }

// between is in whole milliseconds, so that a record is exact.
func (d *dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.below(int((high-low)/time.Millisecond)+1))*time.Millisecond
}
