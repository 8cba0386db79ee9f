// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/source"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/writes"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

const namespace = "ns"

// lab is a management cluster with one control plane, the controller under test,
// and a workload cluster of which the test simulates the rest: machines that boot
// and are deleted, their Nodes and Pods, etcd.
type lab struct {
	*testing.T
	*Reconciler
	clock  *testclock.FakeClock
	inside client.Client // of the workload cluster
	down   bool          // the workload cluster does not answer
	lost   time.Time     // since when; zero if it has not answered since the start
	start  time.Time     // of the process
	why    error         // it does not answer; nil if no client has connected
	etcd   *members
	said   []string // by events
	writes int
	wrote  []string                  // on Machines
	refuse func(client.Object) error // creations in the management cluster
	reject func(client.Object) error // other writes there
	stuck  map[string]bool           // machines that never boot
	ends   map[string]time.Time      // of certificates, by node
	unread error                     // why none can be read
	looks  atomic.Int32              // at a certificate
}

func newLab(t *testing.T, replicas int32, change ...func(*clusterv1.Cluster, *controlplanev1.KubeadmControlPlane)) *lab {
	t.Helper()
	l := &lab{T: t, clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), etcd: &members{}, stuck: map[string]bool{}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo", UID: "cluster"}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.64.0.1", Port: 6443}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion().Group, Kind: kind, Name: "cp"}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cp", UID: "kcp", Generation: 1,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}, Finalizers: []string{controlplanev1.KubeadmControlPlaneFinalizer},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "demo", UID: "cluster"}}}}
	kcp.Spec.Replicas, kcp.Spec.Version = &replicas, "v1.35.0"
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachineTemplate", Name: "small"}
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP256 // keys of RSA take long
	for _, c := range change {
		c(cluster, kcp)
	}
	template := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small", UID: "template"}}
	template.Spec.Template.Spec.Simulated = &infrav1.LocalMachineSimulated{}
	l.Reconciler = &Reconciler{Deps: deps.Deps{Mgmt: l.management(cluster, kcp, template), Clock: l.clock, Workload: l, Recorder: l, Name: l.namer(), Deprecated: true}, Etcd: l, CertificateExpiry: l.expiry}
	l.Live = l.Mgmt
	l.Providers = provider.New(l.Mgmt, nil)
	l.inside = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "kube-proxy", Image: "registry.k8s.io/kube-proxy:v1.35.0"}}}}},
	}).Build()
	return l
}

func (l *lab) management(objects ...client.Object) client.Client {
	s := runtime.NewScheme()
	err := errors.Join(scheme.AddToScheme(s), clusterv1.AddToScheme(s), bootstrapv1.AddToScheme(s), controlplanev1.AddToScheme(s), infrav1.AddToScheme(s), apiextensionsv1.AddToScheme(s))
	if err != nil {
		l.Fatal(err)
	}
	for _, name := range []string{"localmachines." + infrav1.GroupVersion().Group, "localmachinetemplates." + infrav1.GroupVersion().Group, "kubeadmconfigs." + bootstrapv1.GroupVersion().Group} {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"}}})
	}
	uid := 0
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithReturnManagedFields().
		WithStatusSubresource(&clusterv1.Cluster{}, &clusterv1.Machine{}, &controlplanev1.KubeadmControlPlane{}).
		WithIndex(&clusterv1.Machine{}, index.ClusterName, index.Of).
		WithIndex(&clusterv1.MachinePool{}, index.ClusterName, index.Of).
		WithIndex(&clusterv1.MachineHealthCheck{}, index.ClusterName, index.Of).
		WithInterceptorFuncs(writes.Before(func(verb string, obj client.Object) error {
			l.writes++
			if m, ok := obj.(*clusterv1.Machine); ok {
				l.wrote = append(l.wrote, verb+" "+m.Name)
			}
			if verb != "create" {
				if l.reject != nil {
					return l.reject(obj)
				}
				return nil
			}
			if l.refuse != nil {
				if err := l.refuse(obj); err != nil {
					return err
				}
			}
			uid++
			obj.SetUID(types.UID(fmt.Sprintf("uid-%d", uid)))
			l.clock.Step(time.Second) // so that ages differ
			obj.SetCreationTimestamp(metav1.NewTime(l.clock.Now()))
			return nil
		})).Build()
}

func (l *lab) namer() func(string) string {
	n := 0
	return func(prefix string) string { n++; return fmt.Sprintf("%s-%d", prefix, n) }
}

// expiry returns when a certificate expires: the time in l.ends of its node, or
// else in ten years.
func (l *lab) expiry(_ context.Context, t podforward.Target) (time.Time, error) {
	l.looks.Add(1)
	if l.unread != nil || t.Port != 6443 {
		return time.Time{}, l.unread
	}
	if end, ok := l.ends[t.Node]; ok {
		return end, nil
	}
	return l.clock.Now().AddDate(10, 0, 0), nil
}

// Eventf implements events.EventRecorder.
func (l *lab) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(note, args...))
}

// Client implements workload.Clusters.
func (l *lab) Client(context.Context, client.ObjectKey) (client.Client, error) {
	if l.down || len(l.etcd.list) == 0 {
		return nil, workload.ErrNotConnected
	}
	return l.inside, nil
}

// Config implements workload.Clusters.
func (l *lab) Config(client.ObjectKey) (*rest.Config, error) { return &rest.Config{}, nil }

// Health implements workload.Clusters.
func (l *lab) Health(client.ObjectKey) workload.Health {
	if l.down {
		h := workload.Health{LastProbeSuccess: l.lost, Since: l.start, Err: l.why}
		if l.why != nil {
			h.Failures = workload.Persistent
		}
		return h
	}
	return workload.Health{Connected: true, LastProbeSuccess: l.clock.Now(), Answering: l.clock.Now().Add(-time.Hour)}
}

// Source implements workload.Clusters.
func (l *lab) Source(client.Object, workload.ToRequests) source.Source { return nil }

// AwaitKinds implements workload.Clusters.
func (l *lab) AwaitKinds(client.ObjectKey) {}

// Connect implements etcd.Connector.
func (l *lab) Connect(_ context.Context, t etcd.Target) (etcd.Client, error) {
	for _, node := range t.Nodes {
		if i := slices.IndexFunc(l.etcd.list, func(m etcd.Member) bool { return m.Name == node }); i >= 0 && !l.etcd.sick[node] {
			l.etcd.asked.Add(1)
			return &link{l.etcd, l.etcd.list[i].ID}, nil
		}
	}
	return nil, fmt.Errorf("etcd on %v does not answer", t.Nodes)
}

// members is an etcd cluster.
type members struct {
	list   []etcd.Member
	leader uint64
	sick   map[string]bool
	made   uint64
	asked  atomic.Int32
	log    []string
	refuse bool // removals
	deaf   bool // to changes of the leader
}

type link struct {
	*members
	id uint64
}

func (c *link) Members(context.Context) ([]etcd.Member, error) { return slices.Clone(c.list), nil }
func (c *link) Status(context.Context) (etcd.Status, error) {
	return etcd.Status{Member: c.id, Leader: c.leader}, nil
}
func (c *link) Remove(_ context.Context, id uint64) error {
	if c.refuse {
		return errors.New("etcd refuses")
	}
	c.log = append(c.log, "remove "+c.nameOf(id))
	c.list = slices.DeleteFunc(c.list, func(m etcd.Member) bool { return m.ID == id })
	return nil
}
func (c *link) MoveLeader(_ context.Context, to uint64) error {
	if c.deaf {
		return errors.New("etcd does not listen")
	}
	c.log = append(c.log, "lead "+c.nameOf(to))
	c.leader = to
	return nil
}
func (c *link) Close() error { return nil }

func (m *members) nameOf(id uint64) string {
	for _, member := range m.list {
		if member.ID == id {
			return member.Name
		}
	}
	return "none"
}

// once reconciles the control plane one time.
func (l *lab) once() (ctrl.Result, error) {
	l.Helper()
	var kcp controlplanev1.KubeadmControlPlane
	if err := l.Mgmt.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: "cp"}, &kcp); err != nil {
		return ctrl.Result{}, err
	}
	return l.Reconcile(l.Context(), &kcp)
}

// settle runs all actors until nothing changes.
func (l *lab) settle() {
	l.Helper()
	for range 100 {
		before := l.writes
		if _, err := l.once(); client.IgnoreNotFound(err) != nil {
			l.Fatalf("%v\nso far: %q", err, l.said)
		}
		l.live()
		if l.writes == before {
			return
		}
	}
	l.Fatalf("no rest; so far: %q", l.said)
}

// live simulates the machines.
func (l *lab) live() {
	l.Helper()
	for _, m := range l.machines() {
		_, held := m.Annotations[controlplanev1.PreTerminateHookCleanupAnnotation]
		switch {
		case !m.DeletionTimestamp.IsZero() && held:
			if conditions.Reason(m, clusterv1.MachineDeletingCondition) == "" {
				l.status(m, func() {
					conditions.Set(m, l.clock.Now(), metav1.Condition{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeletingWaitingForPreTerminateHookReason})
				})
			}
		case !m.DeletionTimestamp.IsZero():
			l.gone(m)
		case m.Status.NodeRef.Name == "" && !l.stuck[m.Name]:
			l.boot(m)
		}
	}
}

func (l *lab) machines() (all []*clusterv1.Machine) {
	l.Helper()
	var list clusterv1.MachineList
	l.must(l.Mgmt.List(l.Context(), &list, client.HasLabels{clusterv1.MachineControlPlaneLabel}))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func (l *lab) status(m *clusterv1.Machine, change func()) {
	l.Helper()
	before := m.DeepCopy()
	change()
	l.must(l.Mgmt.Status().Patch(l.Context(), m, client.MergeFrom(before)))
}

// markForRemediation marks a machine for remediation, as a health check does.
func (l *lab) markForRemediation(name string) {
	l.Helper()
	for _, m := range l.machines() {
		if m.Name != name {
			continue
		}
		l.status(m, func() {
			for _, c := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
				conditions.Set(m, l.clock.Now(), metav1.Condition{Type: c, Status: metav1.ConditionFalse, Reason: "X"})
			}
		})
	}
}

// boot creates a Node, its Pods and an etcd member of a machine.
func (l *lab) boot(m *clusterv1.Machine) {
	l.Helper()
	node := "node-" + m.Name
	l.must(l.inside.Create(l.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node, CreationTimestamp: metav1.NewTime(l.clock.Now()), Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}},
	}))
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		l.must(l.inside.Create(l.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: component + "-" + node, UID: types.UID(component + "-" + node), Labels: map[string]string{"tier": "control-plane"}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}))
	}
	if len(l.etcd.list) == 0 {
		l.must(l.inside.Create(l.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"},
			Data: map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.0\n"}}))
	}
	l.etcd.made++
	id := l.etcd.made
	l.etcd.list = append(l.etcd.list, etcd.Member{ID: id, Name: node})
	if l.etcd.leader == 0 {
		l.etcd.leader = id
	}
	l.status(m, func() {
		m.Status.NodeRef.Name = node
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: m.Spec.Version}
		for _, t := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition, clusterv1.MachineNodeReadyCondition} {
			conditions.Set(m, l.clock.Now(), metav1.Condition{Type: t, Status: metav1.ConditionTrue, Reason: "Ready"})
		}
		v1beta1conditions.SetMachine(m, l.clock.Now(), v1beta1conditions.True(clusterv1.ReadyV1Beta1Condition))
	})
}

func (l *lab) gone(m *clusterv1.Machine) {
	l.Helper()
	node := m.Status.NodeRef.Name
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		l.must(client.IgnoreNotFound(l.inside.Delete(l.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: component + "-" + node}})))
	}
	l.must(client.IgnoreNotFound(l.inside.Delete(l.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})))
	before := m.DeepCopy()
	m.Finalizers = nil
	l.must(l.Mgmt.Patch(l.Context(), m, client.MergeFrom(before)))
}

func (l *lab) controlPlane() *controlplanev1.KubeadmControlPlane {
	l.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{}
	l.must(l.Mgmt.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: "cp"}, kcp))
	return kcp
}

// change changes the spec of the control plane.
func (l *lab) change(do func(*controlplanev1.KubeadmControlPlane)) {
	l.Helper()
	kcp := l.controlPlane()
	before := kcp.DeepCopy()
	do(kcp)
	l.must(l.Mgmt.Patch(l.Context(), kcp, client.MergeFrom(before)))
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// want checks conditions given as "Type Status Reason".
func (l *lab) want(obj conditions.Getter, lines ...string) {
	l.Helper()
	for _, line := range lines {
		f := strings.Fields(line)
		c := conditions.Get(obj, f[0])
		if c == nil || string(c.Status) != f[1] || c.Reason != f[2] {
			l.Errorf("condition %+v, want %s", c, line)
		}
	}
}
