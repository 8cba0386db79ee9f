// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world is a management cluster with one reconciler, and a record of the writes to
// it.
type world struct {
	t      *testing.T
	c      client.Client
	r      *Reconciler
	writes []string
	fail   map[string]error // by the line that the write would have
	events *events.FakeRecorder
	result ctrl.Result // of the last reconcile
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, fail: map[string]error{}, events: events.NewFakeRecorder(100)}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().
		WithStatusSubresource(&clusterv1.MachineSet{}, &clusterv1.Machine{}, &clusterv1.MachineDeployment{})
	for _, kind := range index.Kinds() {
		b = b.WithIndex(kind, index.ClusterName, index.Of)
	}
	w.c = b.WithInterceptorFuncs(writes.Before(w.write)).Build()
	named := 0
	w.r = &Reconciler{
		Deps: deps.Deps{Mgmt: w.c, Live: w.c, Providers: provider.New(w.c, nil), Clock: testclock.NewFakePassiveClock(noon), Recorder: w.events, Deprecated: true, Name: func(prefix string) string { named++; return fmt.Sprintf("%s-n%d", prefix, named) }},
	}
	return w
}

func (w *world) write(verb string, obj client.Object) error {
	if verb == "create" {
		obj.SetUID(types.UID("uid-" + obj.GetName()))
		obj.SetCreationTimestamp(metav1.NewTime(noon))
	}
	gvk, err := apiutil.GVKForObject(obj, w.c.Scheme())
	if err != nil {
		w.t.Fatal(err)
	}
	line := verb + " " + gvk.Kind + " " + obj.GetName()
	w.writes = append(w.writes, line)
	return w.fail[line]
}

func (w *world) reconcile(want ...string) {
	w.t.Helper()
	if err := w.try(); err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(want, w.writes); diff != "" {
		w.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func (w *world) try() (err error) {
	w.t.Helper()
	w.writes = nil
	w.result, err = w.r.Reconcile(w.t.Context(), w.md())
	return err
}

func (w *world) md() *clusterv1.MachineDeployment {
	w.t.Helper()
	return get(w, &clusterv1.MachineDeployment{}, "md")
}

func get[T client.Object](w *world, into T, name string) T {
	w.t.Helper()
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, into); err != nil {
		w.t.Fatal(err)
	}
	return into
}

func (w *world) update(obj client.Object) {
	w.t.Helper()
	if err := w.c.Update(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

func crd(name string) client.Object {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}}}
}

func hostTemplate() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("x.io/v1")
	u.SetKind("HostTemplate")
	u.SetNamespace("ns")
	u.SetName("ht")
	return u
}

// ownedTemplate returns the template of deployment, as it is after adoption.
func ownedTemplate() *unstructured.Unstructured {
	u := hostTemplate()
	u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c"})
	u.SetOwnerReferences([]metav1.OwnerReference{owner.OfCluster(cluster())})
	return u
}

func cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid-c"}}
}

// deployment returns a MachineDeployment as prepare leaves it.
func deployment(want int32) *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "md", UID: "uid-md", Generation: 2,
			Finalizers:      []string{clusterv1.MachineDeploymentFinalizer},
			Labels:          map[string]string{clusterv1.ClusterNameLabel: "c"},
			Annotations:     map[string]string{clusterv1.RevisionAnnotation: "1"},
			OwnerReferences: []metav1.OwnerReference{owner.OfCluster(cluster())},
		},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: "c",
			Replicas:    &want,
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"app": "x"}},
				Spec: clusterv1.MachineSpec{
					ClusterName:       "c",
					Version:           "v1.35.0",
					Bootstrap:         clusterv1.Bootstrap{DataSecretName: new("data")},
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "HostTemplate", Name: "ht"},
				},
			},
		},
	}
}

// machine returns a Machine of a set, in some state.
func machine(name, set string, status metav1.ConditionStatus) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: map[string]string{"app": "x"}, Finalizers: []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet", Name: set, UID: types.UID("uid-" + set), Controller: new(true)}},
		},
		Spec: clusterv1.MachineSpec{ClusterName: "c", Version: "v1.35.0"},
	}
	for _, t := range []string{clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition} {
		conditions.Set(m, noon, metav1.Condition{Type: t, Status: status, Reason: "R", Message: map[metav1.ConditionStatus]string{metav1.ConditionFalse: "no Node"}[status]})
	}
	return m
}

func TestReconcileMakesACompleteMachineSet(t *testing.T) {
	t.Parallel()
	md := deployment(2)
	md.Finalizers, md.Labels, md.OwnerReferences = nil, nil, nil
	w := newWorld(t, cluster(), md, crd("hosttemplates.x.io"), hostTemplate())
	w.reconcile("patch MachineDeployment md")
	wantMeta := deployment(2).ObjectMeta
	got := w.md().ObjectMeta
	wantMeta.ResourceVersion, wantMeta.ManagedFields = got.ResourceVersion, got.ManagedFields
	if diff := cmp.Diff(wantMeta, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	w.reconcile("patch HostTemplate ht", "create MachineSet md-n1", "patch status of MachineDeployment md")
	set := get(w, &clusterv1.MachineSet{}, "md-n1")
	if !metav1.IsControlledBy(set, w.md()) || len(set.Finalizers) != 1 || set.Labels[clusterv1.MachineDeploymentNameLabel] != "md" || *set.Spec.Replicas != 2 {
		t.Errorf("MachineSet %+v %+v", set.ObjectMeta, set.Spec)
	}
	if got := <-w.events.Events; got != "Normal SuccessfulCreate create md-n1 with 2 replicas: no MachineSet matches the template" {
		t.Errorf("event %q", got)
	}
	for range 3 {
		w.reconcile()
	}
}

func TestReconcileReportsEvenWhenCreateFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crd("hosttemplates.x.io"), ownedTemplate(), cluster(), deployment(2))
	w.fail["create MachineSet md-n1"] = errors.New("quota")
	err := w.try()
	if want := "roll out: create md-n1 with 2 replicas: no MachineSet matches the template: quota"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	st := w.md().Status
	if *st.Replicas != 0 || st.ObservedGeneration != 0 || st.Phase != "ScalingUp" || conditions.Message(w.md(), clusterv1.MachineDeploymentScalingUpCondition) != "Scaling up from 0 to 2 replicas" {
		t.Errorf("status %+v", st)
	}
}

func TestReconcileRollsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crd("hosttemplates.x.io"), ownedTemplate(), cluster(), deployment(1))
	w.reconcile("create MachineSet md-n1", "patch status of MachineDeployment md")
	if err := w.c.Create(t.Context(), machine("m1", "md-n1", metav1.ConditionTrue)); err != nil {
		t.Fatal(err)
	}
	w.reconcile("patch status of MachineDeployment md")
	if md := w.md(); !conditions.IsTrue(md, clusterv1.MachineDeploymentAvailableCondition) || md.Status.Phase != "Running" {
		t.Errorf("status %+v", md.Status)
	}

	md := w.md()
	md.Spec.Template.Spec.Version = "v1.36.0"
	w.update(md)
	w.reconcile("create MachineSet md-n2", "patch MachineDeployment md", "patch status of MachineDeployment md") // the revision; MachineSetReady of v1beta1
	if got := w.md().Annotations[clusterv1.RevisionAnnotation]; got != "2" {
		t.Errorf("revision %s, want 2", got)
	}
	w.reconcile()
	if err := w.c.Create(t.Context(), machine("m2", "md-n2", metav1.ConditionTrue)); err != nil {
		t.Fatal(err)
	}
	w.reconcile("patch MachineSet md-n1", "patch status of MachineDeployment md")
	if got := *get(w, &clusterv1.MachineSet{}, "md-n1").Spec.Replicas; got != 0 {
		t.Errorf("the old MachineSet wants %d replicas, want 0", got)
	}
	m := get(w, &clusterv1.Machine{}, "m1")
	m.Finalizers = nil
	w.update(m)
	if err := w.c.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.reconcile("delete MachineSet md-n1", "patch status of MachineDeployment md")
}

func TestReconcileHoldsARolloutWhoseTemplateDoesNotExist(t *testing.T) {
	t.Parallel()
	outdated := machine("m1", "md-n1", metav1.ConditionTrue)
	conditions.Set(outdated, noon, metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: "R", Message: "* Infrastructure HostTemplate ht, HostTemplate typo required"})
	w := newWorld(t, crd("hosttemplates.x.io"), ownedTemplate(), cluster(), deployment(1), outdated)
	w.reconcile("create MachineSet md-n1", "patch status of MachineDeployment md")
	w.reconcile("patch status of MachineDeployment md")
	md := w.md()
	md.Spec.Template.Spec.InfrastructureRef.Name = "typo"
	md.Spec.Replicas = new(int32(2))
	md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	w.update(md)
	w.reconcile("patch MachineSet md-n1", "patch status of MachineDeployment md") // the numbers that the set receives
	if got := *get(w, &clusterv1.MachineSet{}, "md-n1").Spec.Replicas; got != 1 {
		t.Errorf("the MachineSet wants %d replicas, want 1 as before", got)
	}
	const why = " is blocked because:\n* HostTemplate typo, named by spec.template.spec.infrastructureRef, does not exist: create it, or correct the reference"
	for conditionType, want := range map[string]string{
		clusterv1.MachineDeploymentRollingOutCondition: "Rolling out 1 not up-to-date replicas" + why,
		clusterv1.MachineDeploymentScalingUpCondition:  "Scaling up from 1 to 2 replicas" + why,
	} {
		if got := conditions.Message(w.md(), conditionType); got != want {
			t.Errorf("%s: %q, want %q", conditionType, got, want)
		}
	}
	w.reconcile()
	template := ownedTemplate()
	template.SetName("typo")
	if err := w.c.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	w.reconcile("create MachineSet md-n2", "patch MachineDeployment md", "patch status of MachineDeployment md")
}

func TestReconcileTakesNoTemplateOfAnotherCluster(t *testing.T) {
	t.Parallel()
	template := ownedTemplate()
	template.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "prod", UID: "p"}})
	w := newWorld(t, crd("hosttemplates.x.io"), template, cluster(), deployment(1))
	w.reconcile("patch status of MachineDeployment md")
	const want = "Scaling up from 0 to 1 replicas is blocked because:\n* spec.template.spec.infrastructureRef: HostTemplate ns/ht is held by Cluster prod: refer to another object, or remove that owner or label"
	if got := conditions.Message(w.md(), clusterv1.MachineDeploymentScalingUpCondition); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestReconcileSaysThatTheKindOfATemplateIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), deployment(1))
	err := w.try()
	const why = "spec.template.spec.infrastructureRef: kind HostTemplate.x.io: there is no CRD hosttemplates.x.io: install the provider that brings it, or correct apiGroup and kind"
	if err == nil || err.Error() != "roll out: "+why {
		t.Errorf("error %v, want roll out: %s", err, why) // no watch reports a new CRD
	}
	if got, want := conditions.Message(w.md(), clusterv1.MachineDeploymentScalingUpCondition), "Scaling up from 0 to 1 replicas is blocked because:\n* "+why; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestReconcileAdoptsMachineSetsFirst(t *testing.T) {
	t.Parallel()
	orphan := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "was", UID: "uid-was", Labels: map[string]string{"app": "x"}},
		Spec:       clusterv1.MachineSetSpec{ClusterName: "c", Replicas: new(int32(1)), Template: deployment(1).Spec.Template},
	}
	w := newWorld(t, crd("hosttemplates.x.io"), ownedTemplate(), cluster(), deployment(1), orphan)
	w.reconcile("patch MachineSet was", "patch status of MachineDeployment md")
	w.reconcile("patch MachineSet was", "patch MachineSet was", "patch status of MachineDeployment md") // the record of labels and annotations, and these; MachineSetReady of v1beta1
	w.reconcile()
	set := get(w, &clusterv1.MachineSet{}, "was")
	if !metav1.IsControlledBy(set, w.md()) || set.Annotations[clusterv1.RevisionAnnotation] != "1" {
		t.Errorf("MachineSet %+v", set.ObjectMeta)
	}
}

func TestReconcileRestoresLabelsOfItsMachineSets(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*clusterv1.MachineSet){
		"one of the selector":    func(s *clusterv1.MachineSet) { delete(s.Labels, "app") },
		"the one that is unique": func(s *clusterv1.MachineSet) { delete(s.Labels, clusterv1.MachineDeploymentUniqueLabel) },
		"all of them":            func(s *clusterv1.MachineSet) { s.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, crd("hosttemplates.x.io"), ownedTemplate(), cluster(), deployment(1))
			w.reconcile("create MachineSet md-n1", "patch status of MachineDeployment md")
			set := get(w, &clusterv1.MachineSet{}, "md-n1")
			want := set.DeepCopy()
			lose(set)
			w.update(set)
			w.reconcile("patch MachineSet md-n1")
			got := get(w, &clusterv1.MachineSet{}, "md-n1")
			if diff := cmp.Diff(want.Labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReconcileDeletesItsMachineSetsBeforeItGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, crd("hosttemplates.x.io"), ownedTemplate(), cluster(), deployment(1))
	w.reconcile("create MachineSet md-n1", "patch status of MachineDeployment md")
	if err := w.c.Delete(t.Context(), w.md()); err != nil {
		t.Fatal(err)
	}
	w.reconcile("delete MachineSet md-n1", "patch status of MachineDeployment md")
	if got := conditions.Message(w.md(), clusterv1.MachineDeploymentDeletingCondition); got != "Waiting for MachineSets to be deleted: md-n1" {
		t.Errorf("message %q", got)
	}
	set := get(w, &clusterv1.MachineSet{}, "md-n1")
	set.Finalizers = nil
	w.update(set)
	w.reconcile("patch MachineDeployment md")
}

// TestADeletionThatOrphansKeepsTheMachineSets is kubectl delete --cascade=orphan.
func TestADeletionThatOrphansKeepsTheMachineSets(t *testing.T) {
	t.Parallel()
	md := deployment(1)
	md.Finalizers = append(md.Finalizers, metav1.FinalizerOrphanDependents)
	w := newWorld(t, crd("hosttemplates.x.io"), ownedTemplate(), cluster(), md)
	w.reconcile("create MachineSet md-n1", "patch status of MachineDeployment md")
	if err := w.c.Delete(t.Context(), w.md()); err != nil {
		t.Fatal(err)
	}
	w.reconcile("patch MachineDeployment md")
	get(w, &clusterv1.MachineSet{}, "md-n1")
}

func TestReconcileOwnsTheTemplatesOfADeploymentDeletedUnseen(t *testing.T) {
	t.Parallel()
	md := deployment(1)
	md.OwnerReferences, md.Annotations, md.DeletionTimestamp = nil, nil, new(metav1.NewTime(noon))
	w := newWorld(t, cluster(), md, hostTemplate(), crd("hosttemplates.x.io"))
	w.reconcile("patch HostTemplate ht", "patch MachineDeployment md")
	template := get(w, hostTemplate(), "ht")
	if diff := cmp.Diff([]metav1.OwnerReference{owner.OfCluster(cluster())}, template.GetOwnerReferences()); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestReconcileWaitsForItsCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment(1))
	w.reconcile("patch status of MachineDeployment md")
	want := "Scaling up from 0 to 1 replicas is blocked because:\n* Cluster c, named by spec.clusterName, does not exist: create it, or correct the field"
	if got := conditions.Message(w.md(), clusterv1.MachineDeploymentScalingUpCondition); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestReconcileKeepsQuietAboutAClusterThatMayStillCome(t *testing.T) {
	t.Parallel()
	md := deployment(1)
	md.CreationTimestamp = metav1.NewTime(noon)
	w := newWorld(t, md)
	w.reconcile()
	if w.result.RequeueAfter != grace {
		t.Errorf("back in %s, want %s", w.result.RequeueAfter, grace)
	}
}

func TestReconcileKeepsQuietAboutATemplateThatMayStillCome(t *testing.T) {
	t.Parallel()
	md := deployment(1)
	md.CreationTimestamp = metav1.NewTime(noon.Add(-time.Second))
	w := newWorld(t, crd("hosttemplates.x.io"), cluster(), md)
	w.reconcile()
	if w.result.RequeueAfter != grace-time.Second {
		t.Errorf("back in %s, want %s", w.result.RequeueAfter, grace-time.Second)
	}
	if err := w.c.Create(t.Context(), ownedTemplate()); err != nil {
		t.Fatal(err)
	}
	w.reconcile("create MachineSet md-n1", "patch status of MachineDeployment md")
}

func TestReconcileLeavesAPausedDeploymentAlone(t *testing.T) {
	t.Parallel()
	c := cluster()
	c.Spec.Paused = new(true)
	md := deployment(1)
	md.Finalizers = nil
	w := newWorld(t, c, md)
	w.reconcile("patch MachineDeployment md", "patch status of MachineDeployment md")
	if md := w.md(); !conditions.IsTrue(md, clusterv1.PausedCondition) || len(md.Finalizers) != 1 {
		t.Errorf("finalizers %v, conditions %v; want one, and Paused", md.Finalizers, md.Status.Conditions)
	}
}

func TestReconcileComesBackWhenARolloutIsDue(t *testing.T) {
	t.Parallel()
	md := deployment(1)
	md.Spec.Rollout.After = metav1.NewTime(noon.Add(time.Hour))
	w := newWorld(t, crd("hosttemplates.x.io"), ownedTemplate(), cluster(), md)
	w.reconcile("create MachineSet md-n1", "patch status of MachineDeployment md")
	if w.result.RequeueAfter != time.Hour {
		t.Errorf("back in %s, want 1h", w.result.RequeueAfter)
	}
}
