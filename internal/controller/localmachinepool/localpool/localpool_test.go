// SPDX-License-Identifier: Apache-2.0

package localpool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func pool() Pool {
	local := &infrav1.LocalMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool", UID: "p"}}
	local.Spec.Template.Simulated = &infrav1.LocalMachineSimulated{}
	return Pool{Local: local, MachinePool: "mp", Cluster: "demo"}
}

func machinePool(change ...func(*clusterv1.MachinePool)) *clusterv1.MachinePool {
	mp := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mp"}}
	mp.Spec.ClusterName, mp.Spec.Replicas = "demo", new(int32(3))
	mp.Spec.Template.Spec = clusterv1.MachineSpec{
		Version: "v1.36.0", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("data")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: Kind.Group, Kind: Kind.Kind, Name: "pool"},
	}
	for _, c := range change {
		c(mp)
	}
	return mp
}

func cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true)}
	return c
}

func owned(kind, name string) metav1.OwnerReference {
	group := map[bool]string{true: infrav1.GroupVersion().String(), false: clusterv1.GroupVersion().String()}[kind == Kind.Kind]
	return metav1.OwnerReference{APIVersion: group, Kind: kind, Name: name, UID: "u"}
}

func TestMembersAreThoseThatThePoolHas(t *testing.T) {
	t.Parallel()
	local := func(name, label string, owners ...metav1.OwnerReference) infrav1.LocalMachine {
		m := infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
		if label != "" {
			m.Labels = map[string]string{clusterv1.MachinePoolNameLabel: label}
		}
		return m
	}
	machine := func(name, label, kind string) clusterv1.Machine {
		m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "of-" + name, Labels: map[string]string{clusterv1.MachinePoolNameLabel: label}}}
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: MachineKind.Group, Kind: kind, Name: name}
		return m
	}
	locals := []infrav1.LocalMachine{
		local("mine", "mp", owned(Kind.Kind, "pool"), owned("Machine", "of-mine")),
		local("unlabelled", "", owned(Kind.Kind, "pool")),
		local("orphan", "mp"),
		local("disowned", "mp", owned("Machine", "of-disowned")),
		local("of-a-set", "mp", owned("MachineSet", "set")),
		local("of-another-machine", "mp", owned("Machine", "m")),
		local("of-another-pool", "mp", owned(Kind.Kind, "other")),
		local("unowned", ""),
	}
	machines := []clusterv1.Machine{
		machine("mine", "mp", MachineKind.Kind), machine("disowned", "mp", MachineKind.Kind), machine("orphan", "other", MachineKind.Kind), machine("unlabelled", "mp", "OtherMachine"),
	}
	var got []string
	for _, m := range pool().Members(locals, machines) {
		got = append(got, m.Local.Name+" "+ptr.Deref(m.Machine, clusterv1.Machine{}).Name)
	}
	if diff := cmp.Diff([]string{"disowned of-disowned", "mine of-mine", "orphan ", "unlabelled "}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMachineIsMadeForItsPool(t *testing.T) {
	t.Parallel()
	p, mp := pool(), machinePool(func(mp *clusterv1.MachinePool) {
		mp.Spec.FailureDomains = []string{"a", "b"}
		mp.Spec.Template.Labels = map[string]string{"team": "blue", clusterv1.MachinePoolNameLabel: "another"}
		mp.Spec.Template.Annotations = map[string]string{"note": "1"}
	})
	p.Local.Labels = map[string]string{clusterv1.WatchLabel: "mine"}
	inA := member("x")
	inA.Local.Annotations[infrav1.PoolFailureDomainAnnotation] = "a"
	got := p.Make(mp, "pool-1", []Member{inA})
	want := &infrav1.LocalMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pool-1", Finalizers: []string{infrav1.LocalMachineFinalizer},
			Labels: map[string]string{"team": "blue", clusterv1.WatchLabel: "mine", clusterv1.ClusterNameLabel: "demo", clusterv1.MachinePoolNameLabel: "mp"},
			Annotations: map[string]string{
				"note":                         "1",
				infrav1.PoolTemplateAnnotation: Template(p.Local, mp), infrav1.PoolVersionAnnotation: "v1.36.0", infrav1.PoolFailureDomainAnnotation: "b",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion().String(), Kind: Kind.Kind, Name: "pool", UID: "p"}},
		},
		Spec: infrav1.LocalMachineSpec{Simulated: &infrav1.LocalMachineSimulated{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !p.Holds(got) {
		t.Error("the pool does not hold it")
	}
	p.Local.UID = "restored"
	if p.Holds(got) {
		t.Error("a restored pool has members without a reconcile")
	}
	if p.Hold(got); !p.Holds(got) || len(got.OwnerReferences) != 1 {
		t.Errorf("owners %v", got.OwnerReferences)
	}
}

func TestTheTemplateIsAnotherWithAnyOfItsParts(t *testing.T) {
	t.Parallel()
	p, mp := pool(), machinePool()
	was := Template(p.Local, mp)
	if mp.Spec.Template.Spec.Bootstrap.DataSecretName = new("other"); Template(p.Local, mp) != was {
		t.Error("bootstrap data change the template: they are for new machines alone")
	}
	if mp.Spec.Template.Spec.Version = "v1.36.1"; Template(p.Local, mp) == was {
		t.Error("another version is the same template")
	}
	mp = machinePool()
	if p.Local.Spec.Template.Simulated.VM.StartupMilliseconds = new(int32(1)); Template(p.Local, mp) == was {
		t.Error("another machine is the same template")
	}
}

func TestWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change         func(*clusterv1.Cluster, *clusterv1.MachinePool)
		waits, blocked string
	}{
		"nothing": {change: func(*clusterv1.Cluster, *clusterv1.MachinePool) {}},
		"the reference": {
			change: func(_ *clusterv1.Cluster, mp *clusterv1.MachinePool) {
				mp.Spec.Template.Spec.InfrastructureRef.Name = "other"
			},
			waits: `Waiting for spec.template.spec.infrastructureRef of MachinePool mp to name this LocalMachinePool: it names LocalMachinePool "other"`,
		},
		"one Cluster": {
			change: func(_ *clusterv1.Cluster, mp *clusterv1.MachinePool) { mp.Spec.ClusterName = "prod" },
			waits:  "Waiting for spec.clusterName of MachinePool mp to be demo, as this LocalMachinePool has it: it is prod",
		},
		"a number": {
			change: func(_ *clusterv1.Cluster, mp *clusterv1.MachinePool) { mp.Spec.Replicas = nil },
			waits:  "Waiting for spec.replicas of MachinePool mp to be set",
		},
		"a number that can be": {
			change: func(_ *clusterv1.Cluster, mp *clusterv1.MachinePool) { mp.Spec.Replicas = new(int32(-3)) },
			waits:  "spec.replicas of MachinePool mp is -3: set a number from 0 to 10000",
		},
		"the infrastructure": {
			change: func(c *clusterv1.Cluster, _ *clusterv1.MachinePool) {
				c.Status.Initialization.InfrastructureProvisioned = nil
			},
			blocked: "Waiting for the infrastructure of Cluster demo to be provisioned",
		},
		"bootstrap data": {
			change: func(_ *clusterv1.Cluster, mp *clusterv1.MachinePool) {
				mp.Spec.Template.Spec.Bootstrap.DataSecretName = nil
			},
			blocked: "Waiting for spec.template.spec.bootstrap.dataSecretName of MachinePool mp",
		},
		"nothing more, of a MachinePool that goes": {
			change:  func(_ *clusterv1.Cluster, mp *clusterv1.MachinePool) { mp.DeletionTimestamp = &metav1.Time{Time: now} },
			blocked: "MachinePool mp is being deleted",
		},
		"nothing more, of a Cluster that goes": {
			change:  func(c *clusterv1.Cluster, _ *clusterv1.MachinePool) { c.DeletionTimestamp = &metav1.Time{Time: now} },
			blocked: "Cluster demo is being deleted",
		},
	}
	for name, tc := range tests {
		c, mp := cluster(), machinePool()
		tc.change(c, mp)
		waits, blocked := pool().Waits(c, mp), ""
		if waits == "" {
			blocked = pool().Blocked(c, mp)
		}
		if waits != tc.waits || blocked != tc.blocked {
			t.Errorf("%s: waits %q, blocked %q; want %q, %q", name, waits, blocked, tc.waits, tc.blocked)
		}
	}
}

// run builds a member whose LocalMachine is ready, or why it is not.
func run(name, why string) Member {
	m := member(name)
	m.Local.Spec.ProviderID = "x://" + name
	status := metav1.ConditionTrue
	if why != "" {
		status, m.Local.Status.Initialization.Provisioned = metav1.ConditionFalse, nil
	}
	conditions.Set(m.Local, now, conditions.New(clusterv1.ReadyCondition, status, "Test", why))
	return m
}

func TestReadyReportsMissingFields(t *testing.T) {
	t.Parallel()
	old := run("b", "")
	old.Local.Annotations[infrav1.PoolTemplateAnnotation] = "before"
	tests := map[string]struct {
		members     []Member
		change      func(*Status)
		want        string
		provisioned bool
	}{
		"all run":         {members: []Member{run("a", ""), run("b", "")}, want: "True Ready: ", provisioned: true},
		"one comes up":    {members: []Member{run("a", ""), run("b", "it boots")}, want: "False NotReady: 1 of 2 machines run\n* LocalMachine b: it boots"},
		"one is missing":  {members: []Member{run("a", "")}, want: "False NotReady: 1 of 2 machines run"},
		"one goes":        {members: []Member{run("a", ""), func() Member { m := run("b", ""); m.Local.DeletionTimestamp = &metav1.Time{Time: now}; return m }()}, want: "False NotReady: 1 of 2 machines run"},
		"one is replaced": {members: []Member{run("a", ""), old, run("c", "it boots")}, want: "True Ready: Replacing 1 machine of another template or version\n* LocalMachine c: it boots", provisioned: true},
		"none can be made": {
			change: func(s *Status) { s.Blocked = "Waiting for data" }, want: "False NotReady: 0 of 2 machines run\n* Waiting for data",
		},
		"making one fails": {change: func(s *Status) { s.Failed = "quota" }, want: "False NotReady: 0 of 2 machines run\n* quota"},
		"none is wanted":   {change: func(s *Status) { s.Facts.Want = 0 }, want: "True Ready: ", provisioned: true},
		"it waits":         {members: []Member{run("a", ""), run("b", "")}, change: func(s *Status) { s.Waiting, s.Facts = "for a number", Facts{} }, want: "False NotReady: for a number"},
		"it was not observed": {
			change: func(s *Status) { s.Failed, s.Facts = "timeout", Facts{} }, want: "False NotReady: Waiting for the pool to be observed: timeout",
		},
		"it is deleted": {
			members: []Member{run("a", "")}, change: func(s *Status) { s.Local.DeletionTimestamp, s.Facts = &metav1.Time{Time: now}, Facts{} },
			want: "False Deleting: Waiting for 1 LocalMachine to be deleted: a",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Status{Pool: pool(), Facts: Facts{Want: 2, Template: "now"}, Cluster: cluster(), Now: now, Members: tc.members}
			if tc.change != nil {
				tc.change(&s)
			}
			Report(s)
			c, st := conditions.Get(s.Local, clusterv1.ReadyCondition), s.Local.Status
			if got := string(c.Status) + " " + c.Reason + ": " + c.Message; got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if ptr.Deref(st.Initialization.Provisioned, false) != tc.provisioned || ptr.Deref(st.Ready, false) != tc.provisioned {
				t.Errorf("provisioned %v, ready %v, want both %v", st.Initialization.Provisioned, st.Ready, tc.provisioned)
			}
			if !conditions.IsFalse(s.Local, clusterv1.PausedCondition) {
				t.Error("it does not say that it is not paused")
			}
		})
	}
}

func TestReportSummarizesPoolMachines(t *testing.T) {
	t.Parallel()
	broken := run("b", "no network")
	broken.Local.Status.FailureReason, broken.Local.Status.FailureMessage = new("CreateError"), new("no network")
	a := run("a", "")
	a.Local.Annotations[infrav1.PoolVersionAnnotation] = "v1.36.0"
	a.Local.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}}
	s := Status{
		Pool: pool(), Facts: Facts{Want: 2, Template: "now"}, Now: now, Members: []Member{a, broken}, ProviderID: "x://pool",
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}, NodeInfo: infrav1.NodeInfo{OperatingSystem: "linux"},
	}
	s.Note()
	Report(s)
	spec, st := s.Local.Spec, s.Local.Status
	if diff := cmp.Diff([]string{"x://a", "x://b"}, spec.ProviderIDList); diff != "" || spec.ProviderID != "x://pool" {
		t.Errorf("providerID %s, list (-want +got):\n%s", spec.ProviderID, diff)
	}
	st.Conditions = nil
	want := infrav1.LocalMachinePoolStatus{
		InfrastructureMachineKind: "LocalMachine", Replicas: new(int32(2)), FailureReason: new("CreateError"), FailureMessage: new("LocalMachine b: no network"),
		Capacity: s.Capacity, NodeInfo: s.NodeInfo,
		Instances: []infrav1.LocalMachinePoolInstance{
			{InstanceName: "a", ProviderID: "x://a", Version: "v1.36.0", Addresses: a.Local.Status.Addresses, Ready: new(true)},
			{InstanceName: "b", ProviderID: "x://b", Ready: new(false)},
		},
	}
	if diff := cmp.Diff(want, st); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	s.Members = []Member{a, a}
	s.Note()
	Report(s)
	if len(s.Local.Spec.ProviderIDList) != 1 || s.Local.Status.FailureReason != nil {
		t.Errorf("list %v, failure %v: an ID is named once, and a failure goes with its machine", s.Local.Spec.ProviderIDList, s.Local.Status.FailureReason)
	}
}
