// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/chaos"
)

// TestAFleetOutlivesChaos injects faults into a fleet at random for half an hour,
// or ten minutes by default. For every seed: no healthy machine is replaced, no
// member of etcd is removed that the quorum needs, and afterwards everything is as
// it was.
func TestAFleetOutlivesChaos(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 1) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			newChaos(t, seed).outlive(t)
		})
	}
}

// chaotic is a fleet to which things happen at random.
type chaotic struct {
	*story
	options chaos.Options
	seen    map[string]machineSeen // by name, when the simulation was last in steady state
	lost    map[string]bool        // machines without a disk
	gone    int                    // machines that were replaced
}

// machineSeen is what a Machine was like.
type machineSeen struct {
	cluster      string
	controlPlane bool
	well         bool // it has become ready, and nothing is wrong with it
}

func newChaos(t *testing.T, seed uint64) *chaotic {
	t.Helper()
	w := New(t)
	for name, of := range map[string][2]int32{"big": {3, 1}, "small": {1, 1}} {
		create(t, w, name, of[0], of[1])
		check := workersHealth()
		check.Name, check.Spec.ClusterName = name, name
		check.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: name}}
		watchOver(t, w, check)
	}
	lasts := 10 * time.Minute // seed 1 loses its disk in them
	if complete() {
		lasts = 30 * time.Minute
	}
	return &chaotic{story: w, lost: map[string]bool{}, options: chaos.Options{
		Seed: seed, For: metav1.Duration{Duration: lasts}, Every: metav1.Duration{Duration: time.Minute}, LoseDisks: true,
	}}
}

// outlive runs the chaos and an hour without faults.
func (c *chaotic) outlive(t *testing.T) {
	var fleet []chaos.Cluster
	for _, name := range []string{"big", "small"} {
		one := chaos.Cluster{Namespace: "default", Name: name}
		for _, obj := range c.objects("LocalMachine") {
			if obj.GetLabels()[clusterv1.ClusterNameLabel] == name {
				_, controlPlane := obj.GetLabels()[clusterv1.MachineControlPlaneLabel]
				one.Machines = append(one.Machines, chaos.Machine{Name: obj.GetName(), ControlPlane: controlPlane, Booted: true})
			}
		}
		fleet = append(fleet, one)
	}
	c.look()
	now := time.Duration(0)
	for _, s := range chaos.Plan(c.options, fleet) {
		c.pass(s.At.Duration - now)
		now = s.At.Duration
		c.do(s)
	}
	c.pass(c.options.For.Duration - now)
	c.pass(time.Hour)
	for _, obj := range c.objects("Cluster") {
		cluster := obj.(*clusterv1.Cluster)
		if available := conditions.Get(cluster, clusterv1.AvailableCondition); available.Status != metav1.ConditionTrue {
			t.Errorf("Cluster %s has not come back: %s", cluster.Name, available.Message)
		}
	}
	if machines := len(c.objects("Machine")); machines != 6 {
		t.Errorf("got %d Machines, want six", machines)
	}
	if c.gone < len(c.lost) {
		t.Errorf("%d machines were replaced, of %d that have lost their disks", c.gone, len(c.lost))
	}
	t.Logf("%d machines were replaced, %d of them without a disk", c.gone, len(c.lost))
	if !complete() && len(c.lost) == 0 {
		t.Errorf("seed %d loses no disk: choose another default", c.options.Seed)
	}
	if t.Failed() {
		end(t, c.story)
		t.Log(c.Story())
	}
}

// do sets or takes back a fault, as "capstan simulated chaos" does.
func (c *chaotic) do(s chaos.Step) {
	c.t.Helper()
	var obj client.Object = &infrav1.LocalMachine{}
	if s.Kind == chaos.LocalCluster {
		obj = &infrav1.LocalCluster{}
	}
	err := c.Mgmt.Get(c.t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, obj)
	if apierrors.IsNotFound(err) {
		return // it was replaced
	}
	c.must(err)
	c.Record("# %s %s", s.At.Duration, s)
	before := obj.DeepCopyObject().(client.Object)
	if s.Ends {
		chaos.End(obj, s.Fault)
	} else {
		c.must(chaos.Begin(obj, s.Fault))
		if s.Fault == string(infrav1.MachineFaultDiskLost) {
			c.lost[s.Name] = true
		}
	}
	c.must(c.Mgmt.Patch(c.t.Context(), obj, client.MergeFrom(before)))
}

// pass lets time pass, and checks whenever the simulation is in steady state.
// Failures in between are expected.
func (c *chaotic) pass(d time.Duration) {
	c.t.Helper()
	err := c.Until(c.t.Context(), d, func() bool { c.look(); return false })
	if errors.Is(err, errRestless) {
		c.must(err)
	}
}

// look compares the Machines with their earlier state.
func (c *chaotic) look() {
	c.t.Helper()
	now := map[string]machineSeen{}
	for _, obj := range c.objects("Machine") {
		m := obj.(*clusterv1.Machine)
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		var infra infrav1.LocalMachine
		c.must(c.Mgmt.Get(c.t.Context(), client.ObjectKeyFromObject(m), &infra))
		_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		now[m.Name] = machineSeen{
			cluster: m.Spec.ClusterName, controlPlane: controlPlane,
			well: m.Status.NodeRef.IsDefined() && len(infra.Spec.Simulated.Faults) == 0 && !c.lost[m.Name],
		}
	}
	changed := map[string]bool{}
	for name, was := range c.seen {
		if _, is := now[name]; is {
			continue
		}
		c.gone++
		if changed[was.cluster] = changed[was.cluster] || was.controlPlane; was.well {
			c.t.Errorf("%s was replaced, which was healthy", name)
		}
	}
	c.seen = now
	for cluster := range changed {
		c.quorum(cluster)
	}
}

// quorum checks that most members of an etcd are those of machines that can run,
// after a machine was removed. It cannot be checked while etcd does not answer.
func (c *chaotic) quorum(cluster string) {
	c.t.Helper()
	var nodes []string
	for name, m := range c.seen {
		if m.cluster == cluster && m.controlPlane && !c.lost[name] {
			nodes = append(nodes, name)
		}
	}
	key := client.ObjectKey{Namespace: "default", Name: cluster}
	config, err := c.clusters.Config(key)
	c.must(err)
	var secret corev1.Secret
	c.must(c.Mgmt.Get(c.t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: certs.SecretName(cluster, certs.Etcd)}, &secret))
	ca, err := certs.FromSecret(&secret, certs.Etcd)
	c.must(err)
	conn, err := (&etcd.Dialer{Clock: c.Clock}).Connect(c.t.Context(), etcd.Target{Cluster: key.String(), Config: config, CA: ca, Nodes: nodes})
	if err != nil {
		return
	}
	members, err := conn.Members(c.t.Context())
	if errors.Join(err, conn.Close()) != nil {
		return
	}
	able := 0
	for _, m := range members {
		if slices.Contains(nodes, m.Name) {
			able++
		}
	}
	if able <= len(members)/2 {
		c.t.Errorf("etcd of %s has %d members, and machines that can run for %d of them", cluster, len(members), able)
	}
}
