// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// fault is a recording of the objects of a cluster of a real plane with one fault, without
// the conditions that are good.
type fault struct {
	start   string // KIND/NAME
	want    string // KIND/NAME and condition of the first cause; empty if nothing is wrong
	also    string // of the second
	unsure  bool   // no object reports the cause
	command string // part of the remedy
}

func faults() map[string]fault {
	return map[string]fault{
		"machine-never-boots":               {start: "Cluster/p06", want: "LocalMachine/p06-workers-jv8v5-p77qb VMProvisioned"},
		"token-expired":                     {start: "Cluster/p07", want: "LocalMachine/p07-workers-bvz87-dx7tc BootstrapExecSucceeded"},
		"pre-drain-hook":                    {start: "Cluster/p08", want: "Machine/p08-workers-7zm4r-2qpbk Deleting", command: "backup-"},
		"before-upgrade-annotation":         {start: "Cluster/t03", want: "Cluster/t03 Hook", command: "change-board-"},
		"disruption-budget":                 {start: "Cluster/p09", want: "Machine/p09-workers-wltsw-nhrwp Deleting", command: "get poddisruptionbudgets"},
		"quota-of-machines":                 {start: "Cluster/q1", want: "ResourceQuota/few Quota", command: "describe resourcequota few"},
		"plan-held":                         {start: "Cluster/shop", want: "Cluster/shop PlanHeld", command: "apply --release cluster/shop"},
		"cluster-paused":                    {start: "Cluster/t04", want: "Cluster/t04 Paused", command: "rollout resume"},
		"template-missing":                  {start: "Cluster/p10", want: "LocalMachineTemplate/p10-missing Missing", command: "get localmachinetemplate"},
		"version-above-control-plane":       {start: "Cluster/p11", want: "MachineSet/p11-workers-kqsjp ScalingUp", command: "upgrade cluster p11"},
		"ca-key-broken":                     {start: "Cluster/p12", want: "KubeadmControlPlane/p12-control-plane CertificatesAvailable"},
		"etcd-member-lost":                  {start: "Cluster/p13", want: "Machine/p13-control-plane-p2l7w EtcdPodHealthy"},
		"api-server-hangs":                  {start: "Cluster/p14", want: "Cluster/p14 RemoteConnectionProbe"},
		"extension-never-discovered":        {start: "Cluster/t05", want: "ExtensionConfig/down Discovered", command: "describe extensionconfig down"},
		"class-not-reconciled":              {start: "Cluster/classless", want: "KubeadmControlPlaneTemplate/nowhere Missing"},
		"remediation-not-allowed":           {start: "Cluster/p15", want: "Machine/p15-workers-54xjc-9x5hp NodeHealthy", also: "MachineHealthCheck/p15-check RemediationAllowed"},
		"names-clash":                       {start: "Cluster/clash", want: "Cluster/clash ControlPlaneAvailable", also: "Cluster/clash InfrastructureReady"},
		"node-not-ready":                    {start: "Cluster/p17", want: "Machine/p17-workers-m7mrs-65tjz NodeHealthy"},
		"pre-terminate-hook":                {start: "Cluster/p18", want: "Machine/p18-workers-kjsfj-j2f2k Deleting", command: "audit-"},
		"bootstrap-template-missing":        {start: "Cluster/p19", want: "KubeadmConfigTemplate/p19-missing Missing", command: "get kubeadmconfigtemplate"},
		"deployment-paused":                 {start: "Cluster/p20", want: "MachineDeployment/p20-workers Paused", command: "rollout resume"},
		"control-plane-machine-off":         {start: "Cluster/p21", want: "Cluster/p21 RemoteConnectionProbe"},
		"class-missing":                     {start: "Cluster/noclass", want: "ClusterClass/not-there Missing"},
		"infrastructure-missing":            {start: "Cluster/noinfra", want: "KubeadmControlPlane/noinfra-control-plane Missing", also: "LocalCluster/noinfra Missing"},
		"infrastructure-machine-deleted":    {start: "Cluster/demo", want: "DevMachine/demo-workers-w2hfz-gjhfs Missing"},
		"kind-not-installed":                {start: "Cluster/nokind", want: "KubeadmControlPlane/nokind-control-plane Missing", also: "Cluster/nokind InfrastructureReady"},
		"api-server-refuses":                {start: "Cluster/a1", want: "Cluster/a1 RemoteConnectionProbe"},
		"etcd-quorum-lost":                  {start: "Cluster/a3", want: "Cluster/a3 RemoteConnectionProbe"},
		"api-server-pod-fails":              {start: "Cluster/a4", want: "Cluster/a4 RemoteConnectionProbe"},
		"rollout-with-lost-member":          {start: "Cluster/a5", want: "Machine/a5-control-plane-9gnkv EtcdPodHealthy"},
		"foreign-finalizer":                 {start: "Cluster/a6", want: "LocalMachine/a6-workers-bbf4p-57spd Deleting"},
		"deletion-paused":                   {start: "Cluster/a8", want: "Cluster/a8 Paused", command: "rollout resume"},
		"etcd-ca-broken":                    {start: "Cluster/a9", want: "KubeadmControlPlane/a9-control-plane CertificatesAvailable"},
		"control-plane-paused":              {start: "Cluster/b1", want: "KubeadmControlPlane/b1-control-plane Paused", command: "paused-"},
		"disk-lost":                         {start: "Cluster/b2", want: "Machine/b2-workers-s5th9-4nk2q NodeHealthy"},
		"node-startup-timeout":              {start: "Cluster/b3", want: "LocalMachine/b3-workers-9fwnj-6fbsk VMProvisioned", also: "MachineHealthCheck/b3-check RemediationAllowed"},
		"machine-references-missing":        {start: "Cluster/b5", want: "KubeadmConfig/b5-lonely Missing", also: "LocalMachine/b5-nowhere Missing"},
		"control-plane-not-stable":          {start: "Cluster/b6", want: "LocalMachine/b6-control-plane-8x87q VMProvisioned"},
		"control-plane-template-missing":    {start: "Cluster/b7", want: "LocalMachineTemplate/b7-missing Missing", command: "get localmachinetemplate"},
		"resource-set-fails":                {start: "ClusterResourceSet/b8-crs", want: "ClusterResourceSet/b8-crs ResourcesApplied"},
		"first-machine-never-boots":         {start: "Cluster/c1", want: "LocalMachine/c1-control-plane-2mzww VMProvisioned"},
		"variables-extension-missing":       {start: "Cluster/c-ext", want: "ExtensionConfig/down Discovered", command: "describe extensionconfig down"},
		"before-create-hook-unknown":        {start: "Cluster/c-badpatch", want: "ExtensionConfig/down Discovered", command: "describe extensionconfig down"},
		"provider-cluster-not-provisioned":  {start: "Cluster/f1", want: "FakeCluster/f1 Provider", command: "capstan init"},
		"provider-without-endpoint":         {start: "Cluster/f2", want: "FakeCluster/f2 Contract"},
		"provider-cluster-fails":            {start: "Cluster/f3", want: "FakeCluster/f3 Ready"},
		"provider-machine-not-provisioned":  {start: "Cluster/f4", want: "FakeMachine/f4-control-plane-lhbnh Provider", command: "capstan init"},
		"provider-machine-fails":            {start: "Cluster/f5", want: "FakeMachine/f5-control-plane-m7v4g InstanceReady"},
		"provider-without-id":               {start: "Cluster/f6", want: "FakeMachine/f6-control-plane-h7p74 Contract"},
		"provider-address-invalid":          {start: "Cluster/f7", want: "Machine/f7-control-plane-x5d7b InfrastructureReady"},
		"etcd-disk-full":                    {start: "Cluster/e1", want: "Machine/e1-control-plane-hb2fb EtcdMemberHealthy"},
		"etcd-disk-full-scaling":            {start: "Cluster/e2", want: "Machine/e2-control-plane-wdd4x EtcdMemberHealthy"},
		"resource-missing-of-set":           {start: "Cluster/r1", want: "ClusterResourceSet/r1-crs ResourcesApplied", command: "describe clusterresourceset"},
		"resource-set-refused":              {start: "Cluster/w1", want: "ClusterResourceSet/w1-crs ResourcesApplied", command: "describe clusterresourceset"},
		"volume-attached":                   {start: "Cluster/v1", want: "Machine/v1-workers-tdxr9-2rlsj Deleting", command: "get volumeattachments"},
		"version-too-old":                   {start: "Cluster/s1", want: "MachineSet/s1-workers-nd6c4 ScalingUp", command: "describe machineset"},
		"kubeadm-version-skew":              {start: "Cluster/s2", want: "MachineSet/s2-workers-jwq2j ScalingUp", command: "describe machineset"},
		"control-plane-version-skew":        {start: "Cluster/s4", want: "Cluster/s4 TopologyReconciled", also: "MachineSet/s4-md-0-9v479-mmvp2 ScalingUp"},
		"move-interrupted":                  {start: "Cluster/m2", want: "Cluster/m2 Paused", command: "capstan-move"},
		"hook-before-cluster-create":        {start: "Cluster/h1", want: "Cluster/h1 Hook", command: "get extensionconfigs"},
		"hook-before-cluster-upgrade":       {start: "Cluster/h3", want: "Cluster/h3 Hook", command: "get extensionconfigs"},
		"hook-before-control-plane-upgrade": {start: "Cluster/h4", want: "Cluster/h4 Hook", command: "get extensionconfigs"},
		"hook-after-control-plane-upgrade":  {start: "Cluster/h5", want: "Cluster/h5 Hook", command: "get extensionconfigs"},
		"hook-before-workers-upgrade":       {start: "Cluster/h6", want: "Cluster/h6 Hook", command: "get extensionconfigs"},
		"hook-after-workers-upgrade":        {start: "Cluster/h7", want: "Cluster/h7 Hook", command: "get extensionconfigs"},
		"hook-before-cluster-delete":        {start: "Cluster/h8", want: "Cluster/h8 Hook", command: "get extensionconfigs"},
		"provider-crashes":                  {start: "Cluster/g2", want: "Pod/crashed-controller-manager-ffd67ccd8-jwq2d ContainersReady", command: "logs --previous"},
		"provider-image-missing":            {start: "Cluster/g1", want: "Pod/broken-controller-manager-7c9587844d-p9nk8 ContainersReady", command: "describe pod"},
		"healthy":                           {start: "Cluster/t07"},
	}
}

func recorded(t testing.TB, name string) (objects []Object) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, &objects); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return objects
}

// at is the key of an object of a recording.
func at(t testing.TB, objects []Object, start string) Key {
	t.Helper()
	kind, name, _ := strings.Cut(start, "/")
	for i := range objects {
		if objects[i].Kind == kind && objects[i].Name == name {
			return objects[i].Key
		}
	}
	t.Fatalf("no %s among the objects", start)
	return Key{}
}

func leaf(r Result, i int) string {
	if i >= len(r.Causes) {
		return ""
	}
	l := r.Causes[i].Chain[0]
	return l.Object.Kind + "/" + l.Object.Name + " " + l.Condition
}

func TestFindNamesCauseOfFault(t *testing.T) {
	t.Parallel()
	for name, tc := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := recorded(t, name)
			r := Find(objects, at(t, objects, tc.start))
			got := fault{start: tc.start, want: leaf(r, 0), also: leaf(r, 1), unsure: len(r.Causes) > 0 && !r.Certain, command: tc.command}
			if diff := cmp.Diff(tc, got, cmp.AllowUnexported(fault{})); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if tc.command != "" && (len(r.Causes) == 0 || !strings.Contains(r.Causes[0].Remedy.Command, tc.command)) {
				t.Errorf("the remedy is not %s: %+v", tc.command, r.Causes)
			}
			for _, c := range r.Causes {
				if end := c.Chain[len(c.Chain)-1].Object; end != r.Object && c.Chain[0].Condition != typePaused && c.Chain[0].Object.Kind != kindResourceSet {
					t.Errorf("the chain ends with %s, not with the object of the user", end)
				}
			}
		})
	}
}

// TestFindNamesNoOtherCauseFromAnyObject starts at each object of the recordings: one that
// is certain of a cause must name one that explains the Cluster.
func TestFindNamesNoOtherCauseFromAnyObject(t *testing.T) {
	t.Parallel()
	for name, tc := range faults() {
		objects := recorded(t, name)
		if tc.unsure {
			continue
		}
		for i := range objects {
			start := objects[i].Key
			r := Find(objects, start)
			if got := leaf(r, 0); r.Certain && got != tc.want && got != tc.also && !slices.Contains(elsewhere(), got) && !sameCause(objects, at(t, objects, tc.start), got) {
				t.Errorf("%s: from %s the first cause is %s, want %s", name, start, got, tc.want)
			}
		}
	}
}

// elsewhere are faults of the plane that the recordings share.
func elsewhere() []string {
	return []string{"ExtensionConfig/down Discovered"}
}

// sameCause reports whether the explanation of a start names the cause at any place, or an
// object with the same cause.
func sameCause(objects []Object, start Key, cause string) bool {
	r := Find(objects, start)
	for i, c := range r.Causes {
		l := c.Chain[0]
		if leaf(r, i) == cause {
			return true
		}
		for _, other := range c.Others {
			if other.Kind+"/"+other.Name+" "+l.Condition == cause {
				return true
			}
		}
	}
	return false
}

var noon = metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))

func condition(conditionType string, status metav1.ConditionStatus, reason, message string, after time.Duration) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon.Add(after))}
}

// fleet is a cluster with a MachineSet of n Machines whose infrastructure has a condition.
func fleet(n int, c metav1.Condition) []Object {
	const core, infra = "cluster.x-k8s.io", "infrastructure.example.com"
	key := func(group, kind, name string) Key { return Key{group, kind, "fleet", name} }
	objects := []Object{
		{Key: key(core, "Cluster", "demo"), UID: "c", Conditions: []metav1.Condition{condition("WorkersAvailable", "False", "NotAvailable", "", time.Minute)}},
		{Key: key(core, "MachineDeployment", "md"), UID: "md", Owners: []string{"c"}, Conditions: []metav1.Condition{condition("MachinesReady", "False", "NotReady", "", time.Minute)}},
		{Key: key(core, "MachineSet", "ms"), UID: "ms", Owners: []string{"md"}, Conditions: []metav1.Condition{condition("MachinesReady", "False", "NotReady", "", time.Minute)}},
	}
	for i := range n {
		name := fmt.Sprintf("m-%d", i)
		objects = append(objects, Object{Key: key(core, "Machine", name), UID: name, Owners: []string{"ms"}, Refs: []Ref{{fieldInfrastructure, key(infra, "FakeMachine", name)}},
			Conditions: []metav1.Condition{condition("InfrastructureReady", "False", "NotReady", "", 0), condition("Ready", "False", "NotReady", "", 0)}})
		objects = append(objects, Object{Key: key(infra, "FakeMachine", name), UID: "i" + name, Conditions: []metav1.Condition{c}})
	}
	return objects
}

func TestFindFoldsMachinesWithSameCause(t *testing.T) {
	t.Parallel()
	objects := fleet(500, condition("InstanceReady", "False", "NoCapacity", "no capacity in eu-1a", 0))
	r := Find(objects, objects[0].Key)
	if len(r.Causes) != 1 || len(r.Causes[0].Others) != 499 || len(r.Causes[0].Chain) != 5 {
		t.Errorf("%d causes, %+v", len(r.Causes), r.Causes)
	}
}

func BenchmarkFind(b *testing.B) {
	objects := fleet(500, condition("InstanceReady", "False", "NoCapacity", "no capacity in eu-1a", 0))
	for b.Loop() {
		Find(objects, objects[0].Key)
	}
}

func TestFindReportsWhatIsUncertain(t *testing.T) {
	t.Parallel()
	const core = "cluster.x-k8s.io"
	set := func(c ...metav1.Condition) Object {
		return Object{Key: Key{core, "MachineSet", "fleet", "ms"}, UID: "ms", Conditions: c}
	}
	scaling := condition("ScalingUp", "True", "ScalingUp", "Scaling up from 0 to 1 replicas", time.Minute)
	warning := func(after time.Duration) []Warning {
		return []Warning{{Reason: "FailedCreate", Message: "refused", Last: metav1.NewTime(noon.Add(after))}}
	}
	with := func(o Object, w []Warning) Object { o.Warnings = w; return o }
	for name, tc := range map[string]struct {
		object   Object
		want     string
		certain  bool
		progress int
	}{
		"progress alone is no cause":       {object: set(scaling), progress: 1},
		"an Event explains it":             {object: with(set(scaling), warning(2*time.Minute)), want: "MachineSet/ms Warning", certain: true},
		"an older Event does not":          {object: with(set(scaling), warning(0)), progress: 1},
		"an Event alone is no cause":       {object: with(set(), warning(0))},
		"a blocked change names its cause": {object: set(condition("ScalingUp", "True", "ScalingUp", "Scaling up from 0 to 1 replicas is blocked because:\n* x", 0)), want: "MachineSet/ms ScalingUp", certain: true},
		"an unknown condition is unsure":   {object: set(condition("Strange", "False", "Odd", "", 0)), want: "MachineSet/ms Strange"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Find([]Object{tc.object}, tc.object.Key)
			if got := leaf(r, 0); got != tc.want || r.Certain != tc.certain || len(r.Progress) != tc.progress {
				t.Errorf("%q, certain %t, %d in progress; want %q, %t, %d", got, r.Certain, len(r.Progress), tc.want, tc.certain, tc.progress)
			}
		})
	}
}

// TestFindNamesWhatIsApartLast has a Cluster with a Machine that does not start, of which
// the new one of a rollout uses up a quota, and a MachineDeployment that was paused before.
func TestFindNamesWhatIsApartLast(t *testing.T) {
	t.Parallel()
	objects := fleet(1, condition("InstanceReady", "False", "NoCapacity", "no capacity in eu-1a", 0))
	rolling := condition("RollingOut", "True", "RollingOut", "Rolling out 1 not up-to-date replicas", -time.Hour)
	objects[0].Conditions = append(objects[0].Conditions, rolling)
	objects[1].Conditions = append(objects[1].Conditions, rolling)
	paused := Object{Key: Key{"cluster.x-k8s.io", "MachineDeployment", "fleet", "other"}, UID: "other", Owners: []string{"c"}, Paused: "spec.paused",
		Conditions: []metav1.Condition{condition("Paused", "True", "Paused", "", -24*time.Hour)}}
	quota := Object{Key: Key{"", "ResourceQuota", "fleet", "few"}, Exhausted: []string{"count/machines.cluster.x-k8s.io"}}
	r := Find(append(objects, paused, quota), objects[0].Key)
	if got := []string{leaf(r, 0), leaf(r, 1), leaf(r, 2)}; !slices.Equal(got, []string{"FakeMachine/m-0 InstanceReady", "MachineDeployment/other Paused", ""}) {
		t.Errorf("causes %q", got)
	}
	failed := Object{Key: Key{"controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "fleet", "cp"}, Conditions: []metav1.Condition{rolling},
		Warnings: []Warning{{Reason: "FailedScaleUp", Message: "create", Last: noon}}}
	if got := leaf(Find([]Object{failed, quota}, failed.Key), 0); got != "ResourceQuota/few Quota" {
		t.Errorf("the cause of a control plane that cannot create a Machine is %s", got)
	}
}

func TestFindEndsWhenConditionsDependOnEachOther(t *testing.T) {
	t.Parallel()
	probe := condition("RemoteConnectionProbe", "False", "ProbeFailed", "Remote connection probe failed", time.Minute)
	plane := Key{"controlplane.example.com", "FakeControlPlane", "fleet", "cp"}
	objects := []Object{
		{Key: Key{"cluster.x-k8s.io", "Cluster", "fleet", "demo"}, UID: "c", Refs: []Ref{{fieldControlPlane, plane}}, Conditions: []metav1.Condition{probe}},
		{Key: plane, UID: "p", Conditions: []metav1.Condition{condition("Available", "False", "ConnectionDown", "", 0)}},
	}
	r := Find(objects, objects[0].Key)
	if len(r.Causes) == 0 || r.Follows+len(r.Causes[0].Chain) < 2 {
		t.Errorf("%+v, want both conditions", r)
	}
}

func TestNamesIgnoresLongerNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"ExtensionConfig \"down\" is": true, "countdown": false, "down-2 and down": true, "down-2": false, "": false} {
		if got := Names(text, "down"); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

func TestReplacedNamesFields(t *testing.T) {
	t.Parallel()
	machine := &Object{Key: Key{"cluster.x-k8s.io", "Machine", "fleet", "m"}, Conditions: []metav1.Condition{condition("UpToDate", "False", "NotUpToDate",
		"* Version v1.36.2, v1.37.0 required\n* Infrastructure LocalMachineTemplate a, LocalMachineTemplate b required\n* KubeadmConfig is not up-to-date", 0)}}
	r := Replaced(machine, machine.Key, true, []Statement{{Source: "Event", Text: "delete m: have 2, want 1"}})
	want := []Difference{{"Version", "v1.36.2", "v1.37.0"}, {"Infrastructure", "LocalMachineTemplate a", "LocalMachineTemplate b"}, {Field: "KubeadmConfig"}}
	if diff := cmp.Diff(want, r.Differences); diff != "" || len(r.Statements) != 2 {
		t.Errorf("%d statements, fields (-want +got):\n%s", len(r.Statements), diff)
	}
}
