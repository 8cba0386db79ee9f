// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// TestALaggingCacheBreaksNoLock checks that objects missing in the cache are read
// from the API server before a lock is taken from its holder.
func TestALaggingCacheBreaksNoLock(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"the lock is not shown":                "demo-lock",
		"the machine that has it is not shown": "m0",
	}
	for name, hidden := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := controlPlane("m1")
			w := newWorld(t, append(certSecrets(), cluster(), m, controlPlane("m0"), configFor(m), lockOf("m0"))...)
			w.hidden = hidden
			w.run("m1")
			w.hidden = ""
			if got, want := lockHolder(t, w), `{"machineName":"m0"}`; got != want || w.secret("m1") != nil {
				t.Errorf("lock = %s, data made: %t, want %s and none", got, w.secret("m1") != nil, want)
			}
		})
	}
}

func TestALaggingCacheMakesNoSecondAuthority(t *testing.T) {
	t.Parallel()
	m := controlPlane("m1")
	alone := cluster(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} })
	w := newWorld(t, append(certSecrets(), alone, m, configFor(m))...)
	w.hidden = "demo-ca"
	w.run("m1")
	w.hidden = ""
	if got := w.document("m1").file("/etc/kubernetes/pki/ca.crt"); got != string(pairs()[certs.CA].Cert) {
		t.Error("the machine does not get the authority that was there")
	}
}

// TestMappersTriggerConfigs maps changes to the configs that they affect.
func TestMappersTriggerConfigs(t *testing.T) {
	t.Parallel()
	done := func(c *bootstrapv1.KubeadmConfig) { c.Status.Initialization.DataSecretCreated = new(true) }
	elsewhere := func(c *bootstrapv1.KubeadmConfig) { c.Labels[clusterv1.ClusterNameLabel] = "other" }
	w := newWorld(t, configFor(worker("waiting")), configFor(worker("done"), done), configFor(worker("elsewhere"), elsewhere))
	foreign := worker("x")
	foreign.Spec.Bootstrap.ConfigRef.Kind = "OtherConfig"
	leaving := controlPlane("m0")
	leaving.DeletionTimestamp = new(metav1.NewTime(now))
	leavingWorker := worker("w0")
	leavingWorker.DeletionTimestamp = new(metav1.NewTime(now))
	p := pool()
	p.Spec.Template.Spec.Bootstrap.ConfigRef = worker("pool-config").Spec.Bootstrap.ConfigRef

	tests := map[string]struct {
		got  []reconcile.Request
		want []string
	}{
		"a Machine triggers its config":                            {w.r.ofMachine(t.Context(), worker("w1")), []string{"w1"}},
		"a Machine of another bootstrap provider":                  {w.r.ofMachine(t.Context(), foreign), nil},
		"a deleted control plane Machine triggers waiting configs": {w.r.ofMachine(t.Context(), leaving), []string{"waiting"}},
		"a worker that goes":                                       {w.r.ofMachine(t.Context(), leavingWorker), []string{"w0"}},
		"a MachinePool":                                            {ofMachinePool(t.Context(), p), []string{"pool-config"}},
		"a Cluster triggers all its configs":                       {w.r.ofCluster(t.Context(), cluster()), []string{"done", "waiting"}},
		"a certificate triggers waiting configs":                   {w.r.ofCertificates(t.Context(), certSecret(certs.CA)), []string{"waiting"}},
		"the release of the lock triggers waiting configs":         {w.r.ofLock(t.Context(), lockOf("m0")), []string{"waiting"}},
		"a connection triggers waiting configs":                    {w.r.ofConnection(t.Context(), client.ObjectKey{Namespace: "ns", Name: "demo"}, nil), []string{"waiting"}},
	}
	for name, tc := range tests {
		var got []string
		for _, r := range tc.got {
			got = append(got, r.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnrelatedEventsTriggerNothing checks the predicates with changes.
func TestUnrelatedEventsTriggerNothing(t *testing.T) {
	t.Parallel()
	machine := func(change func(*clusterv1.Machine)) bool {
		is := worker("w1")
		change(is)
		return machineMatters().Update(event.UpdateEvent{ObjectOld: worker("w1"), ObjectNew: is})
	}
	mp := func(change func(*clusterv1.MachinePool)) bool {
		is := pool()
		change(is)
		return poolMatters().Update(event.UpdateEvent{ObjectOld: pool(), ObjectNew: is})
	}
	of := func(change func(*clusterv1.Cluster)) bool {
		return clusterMatters().Update(event.UpdateEvent{ObjectOld: cluster(), ObjectNew: cluster(change)})
	}
	secret := func(name string) bool {
		s := certSecret(certs.CA)
		s.Name = name
		return certificatesMatter().Create(event.CreateEvent{Object: s})
	}
	tests := map[string]struct{ got, want bool }{
		"a Node is there":                     {machine(func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }), true},
		"the data has been handed over":       {machine(func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = new("s") }), true},
		"the version is set":                  {machine(func(m *clusterv1.Machine) { m.Spec.Version = "v1.37.0" }), true},
		"a Machine has an address":            {machine(func(m *clusterv1.Machine) { m.Spec.ProviderID = "x" }), false},
		"a pool has a Node":                   {mp(func(p *clusterv1.MachinePool) { p.Status.NodeRefs = make([]corev1.ObjectReference, 1) }), true},
		"a pool has a phase":                  {mp(func(p *clusterv1.MachinePool) { p.Status.Phase = "x" }), false},
		"the control plane is initialized":    {of(initialized), true},
		"the endpoint goes":                   {of(noEndpoint), true},
		"the Cluster is paused":               {of(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }), true},
		"the Cluster has a phase":             {of(func(c *clusterv1.Cluster) { c.Status.Phase = "x" }), false},
		"the Cluster goes":                    {clusterMatters().Delete(event.DeleteEvent{Object: cluster()}), false},
		"an authority comes":                  {secret("demo-ca"), true},
		"a client for an external etcd":       {secret("demo-apiserver-etcd-client"), true},
		"a kubeconfig comes":                  {secret("demo-kubeconfig"), false},
		"bootstrap data comes":                {secret("w1"), false},
		"the lock ends":                       {lockMatters().Delete(event.DeleteEvent{Object: lockOf("m")}), true},
		"the lock is taken":                   {lockMatters().Create(event.CreateEvent{Object: lockOf("m")}), false},
		"another ConfigMap of a Cluster goes": {lockMatters().Delete(event.DeleteEvent{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}), false},
	}
	for name, tc := range tests {
		if tc.got != tc.want {
			t.Errorf("%s: triggers a reconcile: %t, want %t", name, tc.got, tc.want)
		}
	}
}

func TestSetupNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	if err := (&Reconciler{}).Setup(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "Workload") {
		t.Errorf("Setup = %v, want an error that names the fields", err)
	}
}
