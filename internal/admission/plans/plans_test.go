// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// plan is the guard of Cluster demo: its plan replaces Machine goes, updates Machine
// changes and scales MachinePool pool down to 2.
func plan(changes ...func(*planv1.PlanGuardSpec)) *planv1.PlanGuard {
	g := &planv1.PlanGuard{
		TypeMeta:   metav1.TypeMeta{APIVersion: planv1.GroupVersion().String(), Kind: "PlanGuard"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"},
		Spec: planv1.PlanGuardSpec{
			Plan: "p1", Deadline: metav1.NewTime(time.Now().Add(time.Hour)), Change: []planv1.Object{{Kind: "MachineDeployment", Name: "md"}},
			Cluster: &planv1.Cluster{
				Namespace: "ns", Name: "demo",
				Machines: []planv1.Machine{{Name: "goes", UID: "goes", Action: planv1.Replaced}, {Name: "changes", UID: "changes", Action: planv1.Changed}},
				Pools:    []planv1.Pool{{Name: "pool", Before: 3, Then: 2}},
			},
		},
	}
	for _, change := range changes {
		change(&g.Spec)
	}
	return g
}

func standing(s *planv1.PlanGuardSpec) { *s = planv1.PlanGuardSpec{Required: true} }
func required(s *planv1.PlanGuardSpec) { s.Required = true }
func expired(s *planv1.PlanGuardSpec)  { s.Deadline = metav1.NewTime(time.Now().Add(-time.Second)) }

func machine(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), Finalizers: []string{clusterv1.MachineFinalizer},
			Labels: map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineDeploymentNameLabel: "md"},
		},
		Spec: clusterv1.MachineSpec{ClusterName: "demo"},
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

// owned is an object of a kind of Cluster demo.
func owned(kind schema.GroupVersionKind, name string, changes ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	obj.SetGroupVersionKind(kind)
	for _, change := range changes {
		change(obj)
	}
	return obj
}

func ofMachineNamed(name string) func(*metav1.PartialObjectMetadata) {
	return func(o *metav1.PartialObjectMetadata) {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: name, UID: types.UID(name)}}
	}
}

func newClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(planv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&planv1.PlanGuard{}).Build()
}

// ask sends the review of a request to the webhook for it, and returns the refusal.
func ask(t *testing.T, c client.Client, name string, obj, old any, dryRun bool) string {
	t.Helper()
	all := Webhooks(c)
	i := slices.IndexFunc(all, func(w webhook.Webhook) bool { return w.Name() == name })
	if i < 0 {
		t.Fatalf("no webhook %s", name)
	}
	req := &admissionv1.AdmissionRequest{Namespace: "ns", Operation: admissionv1.Delete, DryRun: &dryRun}
	req.UserInfo.Username = "eve"
	for _, of := range []struct {
		obj any
		raw *runtime.RawExtension
	}{{obj, &req.Object}, {old, &req.OldObject}} {
		if of.obj == nil {
			continue
		}
		data, err := json.Marshal(of.obj)
		if err != nil {
			t.Fatal(err)
		}
		of.raw.Raw = data
		if named, is := of.obj.(metav1.Object); is {
			req.Name = named.GetName()
		}
	}
	if obj != nil {
		req.Operation = admissionv1.Create
		if old != nil {
			req.Operation = admissionv1.Update
		}
	}
	got := all[i].Admit(t.Context(), req)
	if got.Allowed {
		return ""
	}
	return got.Result.Message
}

const deletesCluster, deletesPool, deletesLocalPool = "plan-deletion.cluster.cluster.x-k8s.io", "plan-deletion.machinepool.cluster.x-k8s.io", "plan-deletion.localmachinepool.infrastructure.capstan.dev"
const deletesMachine, deletesLocal, deletesAny = "plan-deletion.machine.cluster.x-k8s.io", "plan-deletion.localmachine.infrastructure.capstan.dev", "plan-deletion.any.infrastructure.cluster.x-k8s.io"

func TestDeletionsOutsideThePlanAreRefused(t *testing.T) {
	t.Parallel()
	local, foreign := infrav1.GroupVersion().WithKind("LocalMachine"), schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta9", Kind: "MoonMachine"}
	localPool := infrav1.GroupVersion().WithKind("LocalMachinePool")
	pool := func(name string, changes ...func(*clusterv1.MachinePool)) *clusterv1.MachinePool {
		p := &clusterv1.MachinePool{ObjectMeta: machine(name).ObjectMeta, Spec: clusterv1.MachinePoolSpec{ClusterName: "demo"}}
		for _, change := range changes {
			change(p)
		}
		return p
	}
	ofPool := func(o *metav1.PartialObjectMetadata) {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: "pool", UID: "pool"}}
	}
	empties := func(s *planv1.PlanGuardSpec) { s.Cluster.Pools = []planv1.Pool{{Name: "pool", Before: 3}} }
	writes := func(s *planv1.PlanGuardSpec) { s.Change = []planv1.Object{{Kind: "MachinePool", Name: "pool"}} }
	moved := func(finalizers ...string) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			m.Annotations, m.Finalizers = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}, finalizers
		}
	}
	going := func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.Now()) }
	tests := map[string]struct {
		guard *planv1.PlanGuard
		hook  string
		obj   client.Object
		live  client.Object
		want  string // part of the refusal; "" admits
	}{
		"in the plan":                          {plan(), deletesMachine, machine("goes"), nil, ""},
		"not in the plan":                      {plan(), deletesMachine, machine("stays"), nil, "Machine stays is not deleted, as eve requested at"},
		"changed in place by the plan":         {plan(), deletesMachine, machine("changes"), nil, "plan p1, which is being carried out"},
		"after the deadline":                   {plan(expired), deletesMachine, machine("stays"), nil, ""},
		"without a guard":                      {nil, deletesMachine, machine("stays"), nil, ""},
		"of a Cluster that requires a plan":    {plan(standing), deletesMachine, machine("goes"), nil, "Cluster demo requires a plan"},
		"by clusterctl move":                   {plan(), deletesMachine, machine("stays", moved()), nil, ""},
		"as if by move, with its finalizer":    {plan(), deletesMachine, machine("stays", moved(clusterv1.MachineFinalizer)), nil, "not deleted"},
		"infrastructure in the plan":           {plan(), deletesLocal, owned(local, "i", ofMachineNamed("goes")), nil, ""},
		"infrastructure of a deleted Machine":  {plan(), deletesLocal, owned(local, "i", ofMachineNamed("x")), machine("x", going), ""},
		"infrastructure not in the plan":       {plan(), deletesLocal, owned(local, "i", ofMachineNamed("stays")), machine("stays"), "(infrastructure of Machine stays)"},
		"infrastructure of no Machine":         {plan(), deletesLocal, owned(local, "i", ofMachineNamed("lost")), nil, "LocalMachine i is not deleted"},
		"infrastructure of another provider":   {plan(), deletesAny, owned(foreign, "i", ofMachineNamed("stays")), machine("stays"), "MoonMachine i is not deleted"},
		"infrastructure, without a guard":      {nil, deletesAny, owned(foreign, "i", ofMachineNamed("stays")), machine("stays"), ""},
		"a MachineSet without Machines":        {plan(), "plan-deletion.machineset.cluster.x-k8s.io", owned(core("MachineSet"), "old"), machine("stays"), ""},
		"a MachineDeployment with a Machine":   {plan(), "plan-deletion.machinedeployment.cluster.x-k8s.io", owned(core("MachineDeployment"), "md"), machine("stays"), "MachineDeployment md is not deleted (with Machine stays)"},
		"a MachineDeployment in the plan":      {plan(), "plan-deletion.machinedeployment.cluster.x-k8s.io", owned(core("MachineDeployment"), "md"), machine("goes"), ""},
		"another MachineDeployment":            {plan(), "plan-deletion.machinedeployment.cluster.x-k8s.io", owned(core("MachineDeployment"), "other"), machine("stays"), ""},
		"the Cluster":                          {plan(), deletesCluster, owned(core("Cluster"), "demo"), machine("stays"), "Cluster demo is not deleted (with Machine stays)"},
		"a Cluster without Machines":           {plan(), deletesCluster, owned(core("Cluster"), "demo"), nil, ""},
		"a Cluster with a pool alone":          {plan(), deletesCluster, owned(core("Cluster"), "demo"), pool("pool"), "Cluster demo is not deleted (with all replicas of MachinePool pool)"},
		"a Cluster, with its pool in the plan": {plan(empties), deletesCluster, owned(core("Cluster"), "demo"), pool("pool"), ""},
		"a pool":                               {plan(), deletesPool, owned(core("MachinePool"), "pool"), pool("pool"), "MachinePool pool is not deleted (with all replicas of MachinePool pool)"},
		"a pool that the plan scales down":     {plan(writes), deletesPool, owned(core("MachinePool"), "pool"), pool("pool"), "MachinePool pool is not deleted"},
		"a pool that the plan deletes":         {plan(empties), deletesPool, owned(core("MachinePool"), "pool"), pool("pool"), ""},
		"another pool":                         {plan(empties), deletesPool, owned(core("MachinePool"), "other"), pool("other"), "MachinePool other is not deleted"},
		"infrastructure of a pool":             {plan(), deletesLocalPool, owned(localPool, "i", ofPool), pool("pool"), "LocalMachinePool i is not deleted (infrastructure of MachinePool pool)"},
		"infrastructure of a pool in the plan": {plan(empties), deletesLocalPool, owned(localPool, "i", ofPool), pool("pool"), ""},
		"infrastructure of a deleted pool": {plan(), deletesLocalPool, owned(localPool, "i", ofPool), pool("pool", func(p *clusterv1.MachinePool) {
			p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{clusterv1.MachinePoolFinalizer}
		}), ""},
		"a control plane that is not involved": {plan(), "plan-deletion.kubeadmcontrolplane.controlplane.cluster.x-k8s.io", owned(controlplanev1.GroupVersion().WithKind("KubeadmControlPlane"), "cp"), machine("stays"), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			if tc.guard != nil {
				objects = append(objects, tc.guard)
			}
			if tc.live != nil {
				objects = append(objects, tc.live)
			}
			c := newClient(t, objects...)
			for _, dryRun := range []bool{true, false} {
				got := ask(t, c, tc.hook, nil, tc.obj, dryRun)
				if dryRun && tc.guard != nil && tc.guard.Spec.Plan == "" {
					if got != "" {
						t.Errorf("a dry run, with which a plan starts: %s", got)
					}
					continue
				}
				if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
					t.Fatalf("dry run %v: %q, want %q", dryRun, got, tc.want)
				}
				if tc.guard == nil {
					continue
				}
				g := &planv1.PlanGuard{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(tc.guard), g); err != nil {
					t.Fatal(err)
				}
				if held := len(g.Status.Held); held != 0 && (dryRun || tc.want == "") || held == 0 && !dryRun && tc.want != "" {
					t.Errorf("dry run %v: %d refusals are recorded", dryRun, held)
				}
			}
		})
	}
}

func TestRefusalIsRecordedOnce(t *testing.T) {
	t.Parallel()
	conflicts := 2
	writes := 0
	c := interceptor.NewClient(newClient(t, plan()), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if writes++; conflicts > 0 {
				conflicts--
				other := &planv1.PlanGuard{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(obj), other); err != nil {
					return err
				}
				other.Labels = map[string]string{"n": string(rune('a' + conflicts))}
				if err := c.Update(ctx, other); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Patch(ctx, obj, p, opts...)
		},
	})
	for range 3 {
		if got := ask(t, c, deletesMachine, nil, machine("stays"), false); got == "" {
			t.Fatal("admitted")
		}
	}
	g := &planv1.PlanGuard{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "demo"}, g); err != nil {
		t.Fatal(err)
	}
	if writes != 3 || len(g.Status.Held) != 1 || g.Status.Held[0].User != "eve" || g.Status.Held[0].UID != "stays" {
		t.Errorf("%d writes, %+v", writes, g.Status.Held)
	}
}

func TestKindThatIsNotServedHoldsNothing(t *testing.T) {
	t.Parallel()
	without := interceptor.NewClient(newClient(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "plan.capstan.dev", Kind: "PlanGuard"}}
		},
	})
	if got := ask(t, without, deletesMachine, nil, machine("stays"), false); got != "" {
		t.Error(got)
	}
	broken := interceptor.NewClient(newClient(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no answer")
		},
	})
	if got := ask(t, broken, deletesMachine, nil, machine("stays"), false); !strings.Contains(got, "no answer") {
		t.Errorf("a guard that cannot be read: %q", got)
	}
}

func TestUpdatesAndSmallerPoolsOutsideThePlanAreRefused(t *testing.T) {
	t.Parallel()
	pool := func(name string, replicas int32) *clusterv1.MachinePool {
		p := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		p.Spec.ClusterName, p.Spec.Replicas = "demo", &replicas
		return p
	}
	scale := func(name string, replicas int32) *autoscalingv1.Scale {
		return &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	}
	updating := func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
	}
	const updates, shrinks, scales = "plan-validation.machine.cluster.x-k8s.io", "plan-validation.machinepool.cluster.x-k8s.io", "plan-validation.machinepool-scale.cluster.x-k8s.io"
	tests := map[string]struct {
		hook     string
		obj, old any
		want     string
	}{
		"update in the plan":     {updates, machine("changes", updating), machine("changes"), ""},
		"update of another":      {updates, machine("stays", updating), machine("stays"), "Machine stays is not updated in place"},
		"update of what goes":    {updates, machine("goes", updating), machine("goes"), "Machine goes is not updated in place"},
		"pool as in the plan":    {shrinks, pool("pool", 2), pool("pool", 3), ""},
		"pool below the plan":    {shrinks, pool("pool", 1), pool("pool", 3), "MachinePool pool is not scaled down to 1"},
		"pool not in the plan":   {shrinks, pool("other", 2), pool("other", 3), "MachinePool other is not scaled down to 2"},
		"scale below the plan":   {scales, scale("pool", 1), scale("pool", 3), "MachinePool pool is not scaled down to 1"},
		"scale as in the plan":   {scales, scale("pool", 2), scale("pool", 3), ""},
		"scale of what vanished": {scales, scale("gone", 1), scale("gone", 3), ""},
	}
	for name, tc := range tests {
		c := newClient(t, plan(), pool("pool", 3), pool("other", 3))
		if got := ask(t, c, tc.hook, tc.obj, tc.old, false); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestChangesOfAClusterThatRequiresPlansAreRefused(t *testing.T) {
	t.Parallel()
	md := func(name, version string, replicas int32) *clusterv1.MachineDeployment {
		d := &clusterv1.MachineDeployment{TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineDeployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		d.Spec.ClusterName, d.Spec.Replicas, d.Spec.Template.Spec.Version = "demo", &replicas, version
		return d
	}
	cp := func(version string) *controlplanev1.KubeadmControlPlane {
		k := &controlplanev1.KubeadmControlPlane{TypeMeta: metav1.TypeMeta{APIVersion: controlplanev1.GroupVersion().String(), Kind: "KubeadmControlPlane"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cp", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
		k.Spec.Version = version
		return k
	}
	cluster := func(version string) *clusterv1.Cluster {
		c := &clusterv1.Cluster{TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
		c.Spec.Topology.Version = version
		return c
	}
	scale := func(replicas int32) *autoscalingv1.Scale {
		return &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md"}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	}
	const mds, kcps, clusters, scales = "required-plan-validation.machinedeployment.cluster.x-k8s.io", "required-plan-validation.kubeadmcontrolplane.controlplane.cluster.x-k8s.io",
		"required-plan-validation.cluster.cluster.x-k8s.io", "required-plan-validation.machinedeployment-scale.cluster.x-k8s.io"
	tests := map[string]struct {
		guard    *planv1.PlanGuard
		hook     string
		obj, old any
		dryRun   bool
		want     string
	}{
		"a version":                 {plan(standing), mds, md("md", "v2", 3), md("md", "v1", 3), false, "a change of spec.template.spec.version can replace or delete Machines, and Cluster demo requires a plan"},
		"a version, in a dry run":   {plan(standing), mds, md("md", "v2", 3), md("md", "v1", 3), true, ""},
		"more replicas":             {plan(standing), mds, md("md", "v1", 4), md("md", "v1", 3), false, ""},
		"a control plane":           {plan(standing), kcps, cp("v2"), cp("v1"), false, "spec.version"},
		"a topology":                {plan(standing), clusters, cluster("v2"), cluster("v1"), false, "spec.topology.version"},
		"a scale":                   {plan(standing), scales, scale(2), scale(3), false, "spec.replicas"},
		"what the plan writes":      {plan(required), mds, md("md", "v2", 3), md("md", "v1", 3), false, ""},
		"what it does not write":    {plan(required), mds, md("other", "v2", 3), md("other", "v1", 3), false, "spec.template.spec.version"},
		"after the deadline":        {plan(required, expired), mds, md("md", "v2", 3), md("md", "v1", 3), false, "spec.template.spec.version"},
		"a Cluster with a plan":     {plan(), mds, md("other", "v2", 3), md("other", "v1", 3), false, ""},
		"a Cluster without a guard": {nil, mds, md("md", "v2", 3), md("md", "v1", 3), false, ""},
	}
	for name, tc := range tests {
		objects := []client.Object{md("md", "v1", 3)}
		if tc.guard != nil {
			objects = append(objects, tc.guard)
		}
		if got := ask(t, newClient(t, objects...), tc.hook, tc.obj, tc.old, tc.dryRun); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestGuardFitsItsCluster(t *testing.T) {
	t.Parallel()
	const hook = "plan-validation.planguard.plan.capstan.dev"
	other := func(s *planv1.PlanGuardSpec) { s.Plan = "p2" }
	tests := map[string]struct {
		obj, old *planv1.PlanGuard
		want     string
	}{
		"a plan":                 {plan(), nil, ""},
		"none":                   {plan(standing), nil, ""},
		"of another Cluster":     {plan(func(s *planv1.PlanGuardSpec) { s.Cluster.Name = "x" }), nil, "has the name and the namespace of its Cluster"},
		"without what it does":   {plan(func(s *planv1.PlanGuardSpec) { s.Cluster = nil }), nil, "spec.cluster: Required"},
		"not predicted":          {plan(func(s *planv1.PlanGuardSpec) { s.Cluster.NotPredicted = &planv1.NotPredicted{} }), nil, "spec.cluster.notPredicted: Forbidden"},
		"too late":               {plan(expired), nil, "it has passed"},
		"too long":               {plan(func(s *planv1.PlanGuardSpec) { s.Deadline = metav1.NewTime(time.Now().Add(maxDeadline + time.Minute)) }), nil, "at most 168h"},
		"another plan meanwhile": {plan(other), plan(), "plan p1 is being carried out"},
		"more machines meanwhile": {plan(func(s *planv1.PlanGuardSpec) {
			s.Cluster.Machines = append(s.Cluster.Machines, planv1.Machine{Name: "x", UID: "x", Action: planv1.Deleted})
		}), plan(), "plan p1 is being carried out"},
		"a plan for one that requires it": {plan(required), plan(standing), ""},
		"the end of a plan":               {plan(standing), plan(), ""},
		"required meanwhile":              {plan(required), plan(), ""},
	}
	for name, tc := range tests {
		var old any
		if tc.old != nil {
			tc.old.Spec.Deadline = tc.obj.Spec.Deadline
			if tc.obj.Spec.Plan == "" {
				tc.old = plan()
			}
			old = tc.old
		}
		if got := ask(t, newClient(t), hook, tc.obj, old, false); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestReleaseNamesTheUser(t *testing.T) {
	t.Parallel()
	const hook = "plan-deletion.planguard.plan.capstan.dev"
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "c"}}
	for name, tc := range map[string]struct {
		guard  *planv1.PlanGuard
		dryRun bool
		want   int
	}{
		"of a plan":       {plan(), false, 1},
		"in a dry run":    {plan(), true, 0},
		"without a plan":  {plan(standing), false, 0},
		"of one too late": {plan(expired), false, 0},
	} {
		c := newClient(t, cluster.DeepCopy())
		if got := ask(t, c, hook, nil, tc.guard, tc.dryRun); got != "" {
			t.Errorf("%s: %s", name, got)
		}
		var events corev1.EventList
		if err := c.List(t.Context(), &events); err != nil {
			t.Fatal(err)
		}
		if len(events.Items) != tc.want || tc.want == 1 && (events.Items[0].InvolvedObject.UID != "c" || !strings.HasPrefix(events.Items[0].Message, "eve ended plan p1")) {
			t.Errorf("%s: events %+v", name, events.Items)
		}
	}
}

// TestReleaseDoesNotHoldItsNamespace deletes the guard of a plan in a namespace that is
// being deleted, and so takes no event.
func TestReleaseDoesNotHoldItsNamespace(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("because it is being terminated"))
	for name, causes := range map[string][]metav1.StatusCause{"": {{Type: corev1.NamespaceTerminatingCause}}, "being terminated": nil} {
		refused.ErrStatus.Details.Causes = causes
		c := interceptor.NewClient(newClient(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return refused },
		})
		if got := ask(t, c, "plan-deletion.planguard.plan.capstan.dev", nil, plan(), false); (got == "") != (name == "") || !strings.Contains(got, name) {
			t.Errorf("causes %v: %q", causes, got)
		}
	}
}

func TestOnlyWhatAGuardCanRefuseIsAsked(t *testing.T) {
	t.Parallel()
	for _, w := range Webhooks(newClient(t)) {
		if w.Kind.Kind != "PlanGuard" && len(w.When) == 0 {
			t.Errorf("%s is called for every write", w.Name())
		}
	}
}
