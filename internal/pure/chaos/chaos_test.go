// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fleet is some clusters of machines each, booted in their order.
func fleet(clusters, controlPlane, workers int) (all []Cluster) {
	for c := range clusters {
		cluster := Cluster{Namespace: "default", Name: fmt.Sprintf("c%d", c)}
		for m := range controlPlane + workers {
			cluster.Machines = append(cluster.Machines, Machine{
				Name: fmt.Sprintf("c%d-m%d", c, m), Created: epoch.Add(time.Duration(m) * time.Second), ControlPlane: m < controlPlane, Booted: true,
			})
		}
		all = append(all, cluster)
	}
	return all
}

func options(seed uint64, last, every time.Duration) Options {
	return Options{Seed: seed, For: metav1.Duration{Duration: last}, Every: metav1.Duration{Duration: every}}
}

func TestAPlanIsThatOfItsSeed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options  Options
		clusters []Cluster
		want     []string
	}{
		"of one seed": {options(7, time.Minute, 20*time.Second), fleet(1, 1, 1), []string{
			"14.488s LocalMachine default/c0-m0: EtcdUnhealthy begins",
			"28.737s LocalMachine default/c0-m0: EtcdUnhealthy ends",
			"42.794s LocalMachine default/c0-m1: PoweredOff begins",
			"55.07s LocalMachine default/c0-m1: PoweredOff ends",
		}},
		"of another": {options(8, time.Minute, 20*time.Second), fleet(1, 1, 1), []string{
			"37.623s LocalMachine default/c0-m0: PoweredOff begins",
			"47.41s LocalMachine default/c0-m0: PoweredOff ends",
			"53.256s LocalCluster default/c0: APIServerHangs begins",
			"1m0s LocalCluster default/c0: APIServerHangs ends",
		}},
		"of no clusters":          {options(1, time.Hour, time.Second), nil, nil},
		"of no time":              {options(1, time.Second, time.Second), fleet(1, 1, 1), nil},
		"of nothing that happens": {options(1, time.Hour, 0), fleet(1, 1, 1), nil},
		"of a cluster that is being made": {options(13, 15*time.Second, 3*time.Second), []Cluster{{Namespace: "ns", Name: "new", Machines: []Machine{{Name: "m", ControlPlane: true}}}}, []string{
			"5.696s LocalMachine ns/m: NeverBoots begins",
			"9.845s LocalMachine ns/m: EtcdUnhealthy begins",
			"10.696s LocalMachine ns/m: NeverBoots ends",
			"14.845s LocalMachine ns/m: EtcdUnhealthy ends",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range Plan(tc.options, tc.clusters) {
				got = append(got, fmt.Sprint(s.At.Duration, " ", s))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnySeed checks the invariants of plans.
func TestAnySeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		o := options(seed, time.Duration(seed+1)*time.Minute/4, time.Duration(seed%7+1)*5*time.Second)
		o.LoseDisks = seed%2 == 0
		clusters := fleet(1+int(seed%4), 1+int(seed%3), int(seed%5))
		plan := Plan(o, clusters)
		for _, broken := range promises(o, clusters, plan) {
			t.Errorf("seed %d: %s", seed, broken)
		}
		slices.Reverse(clusters)
		for _, c := range clusters {
			slices.Reverse(c.Machines)
		}
		if diff := cmp.Diff(plan, Plan(o, clusters)); diff != "" {
			t.Errorf("seed %d: the plan changes with the order (-one +other):\n%s", seed, diff)
		}
	}
}

// promises lists which of them a plan breaks.
func promises(o Options, clusters []Cluster, plan []Step) (broken []string) {
	machines := map[string]Machine{}
	for _, c := range clusters {
		machines[c.Name] = Machine{}
		for _, m := range c.Machines {
			machines[m.Name] = m
		}
	}
	is, last, lost := map[Step]bool{}, time.Duration(0), map[string]int{}
	for _, s := range plan {
		m, there := machines[s.Name]
		what := s
		what.At, what.Ends = metav1.Duration{}, false
		controlPlaneOnly := strings.HasPrefix(s.Fault, "Etcd") || s.Kind == LocalMachine && s.Fault == "APIServerHangs"
		switch {
		case !there || s.Namespace != "default":
			broken = append(broken, fmt.Sprintf("%s is not there", s))
		case s.At.Duration < last || s.At.Duration > o.For.Duration:
			broken = append(broken, fmt.Sprintf("%s at %s", s, s.At.Duration))
		case is[what] != s.Ends:
			broken = append(broken, fmt.Sprintf("%s twice", s))
		case controlPlaneOnly && !m.ControlPlane, s.Fault == "NeverBoots" && m.Booted:
			broken = append(broken, fmt.Sprintf("%s makes no difference", s))
		}
		if s.Fault == "DiskLost" && !s.Ends {
			if lost[s.Name[:2]]++; !o.LoseDisks || lost[s.Name[:2]] > 1 || m.ControlPlane && 1+o.Seed%3 < 3 {
				broken = append(broken, fmt.Sprintf("%s, number %d", s, lost[s.Name[:2]]))
			}
		}
		is[what], last = !s.Ends, s.At.Duration
	}
	for s, still := range is {
		if still {
			broken = append(broken, fmt.Sprintf("%s and never ends", s))
		}
	}
	return broken
}

// TestEverythingHappens that may, if one waits for it: to each kind of machine.
func TestEverythingHappens(t *testing.T) {
	t.Parallel()
	o := options(7, 100*time.Hour, 5*time.Second)
	o.LoseDisks = true
	clusters := fleet(3, 3, 3)
	clusters[0].Machines[5].Booted = false
	happened := map[string]bool{}
	for _, s := range Plan(o, clusters) {
		happened[s.Kind+" "+s.Fault] = true
	}
	for _, in := range incidents {
		kind, fault := LocalMachine, string(in.ofMachine)
		if in.ofCluster != "" {
			kind, fault = LocalCluster, string(in.ofCluster)
		}
		if !happened[kind+" "+fault] {
			t.Errorf("%s never happens to a %s", fault, kind)
		}
	}
}

func TestFaultsOfOthersStay(t *testing.T) {
	t.Parallel()
	machine := func(note string, faults ...infrav1.MachineFault) *infrav1.LocalMachine {
		m := &infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}}, Spec: infrav1.LocalMachineSpec{Simulated: &infrav1.LocalMachineSimulated{Faults: faults}}}
		if note != "" {
			m.Annotations[infrav1.ChaosAnnotation] = note
		}
		return m
	}
	end := func(obj metav1.Object, fault string) error {
		End(obj, fault)
		return nil
	}
	for name, tc := range map[string]struct {
		do         func(metav1.Object, string) error
		have, want *infrav1.LocalMachine
	}{
		"one begins":              {Begin, machine(""), machine("PoweredOff", "PoweredOff")},
		"one more begins":         {Begin, machine("EtcdLags", "EtcdLags"), machine("EtcdLags,PoweredOff", "EtcdLags", "PoweredOff")},
		"it is a user's already":  {Begin, machine("", "PoweredOff"), machine("", "PoweredOff")},
		"it is ours already":      {Begin, machine("PoweredOff", "PoweredOff"), machine("PoweredOff", "PoweredOff")},
		"one ends":                {end, machine("PoweredOff", "EtcdLags", "PoweredOff"), machine("", "EtcdLags")},
		"a user's does not end":   {end, machine("EtcdLags", "EtcdLags", "PoweredOff"), machine("EtcdLags", "EtcdLags", "PoweredOff")},
		"a user has taken it off": {end, machine("PoweredOff", "EtcdLags"), machine("", "EtcdLags")},
		"it has ended already":    {end, machine(""), machine("")},
	} {
		if err := tc.do(tc.have, "PoweredOff"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(fmt.Sprint(tc.want.Annotations, tc.want.Spec.Simulated.Faults), fmt.Sprint(tc.have.Annotations, tc.have.Spec.Simulated.Faults)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOnlyWhatIsSimulatedFails(t *testing.T) {
	t.Parallel()
	real := metav1.ObjectMeta{Namespace: "ns", Name: "real"}
	for _, obj := range []metav1.Object{&infrav1.LocalCluster{ObjectMeta: real}, &infrav1.LocalMachine{ObjectMeta: real}, &infrav1.LocalMachineTemplate{ObjectMeta: real}} {
		if err := Begin(obj, "PoweredOff"); err == nil || err.Error() != "ns/real is not simulated: faults are for what is" {
			t.Errorf("%T: got %v, want it refused", obj, err)
		}
		if len(obj.GetAnnotations()) > 0 {
			t.Errorf("%T has got a note", obj)
		}
	}
	c := &infrav1.LocalCluster{Spec: infrav1.LocalClusterSpec{Simulated: &infrav1.LocalClusterSimulated{}}}
	if err := Begin(c, "WatchesLost"); err != nil || !slices.Equal(c.Spec.Simulated.Faults, []infrav1.ClusterFault{"WatchesLost"}) || !slices.Equal(Noted(c), []string{"WatchesLost"}) {
		t.Errorf("got %v, %v, %v", c.Spec.Simulated.Faults, Noted(c), err)
	}
	c.Spec.Simulated = nil // a user has made it another one
	if End(c, "WatchesLost"); len(Noted(c)) > 0 {
		t.Errorf("noted %v", Noted(c))
	}
}
