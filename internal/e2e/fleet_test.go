// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// stepTimeout is how long an idle machine may take for one step of a program that a test
// runs. Callers use testenv.Limit of it.
const stepTimeout = 3 * time.Minute

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		if err := runKubectl(context.Background(), os.Stdout, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testenv.Main(m)
}

// fleet is the clusters of one test, in a separate namespace.
type fleet struct {
	*testing.T
	*testenv.Env
}

func newFleet(t *testing.T) fleet { return fleet{t, testenv.Start(t)} }

// shape is the desired shape of a cluster.
type shape struct {
	controlPlane, workers int32 // machines; a zero control plane means 1
	version               string
	template              []byte              // nil means that of users
	change                func(client.Object) // what differs from the template
}

// create creates a cluster from the template that users get.
func (f fleet) create(name string, s shape) {
	f.Helper()
	for _, obj := range f.objects(name, s) {
		if err := f.Client.Create(f.Context(), obj, client.FieldValidation("Strict")); err != nil {
			f.Fatal(err)
		}
	}
}

// objects returns what create creates, the Cluster last.
func (f fleet) objects(name string, s shape) []client.Object {
	f.Helper()
	doc, err := clusterctl.Generate(clusterctl.GenerateOptions{Name: name, Namespace: f.Namespace, KubernetesVersion: cmp.Or(s.version, "v1.36.3"),
		ControlPlaneMachines: new(cmp.Or(s.controlPlane, 1)), WorkerMachines: new(s.workers), Template: s.template,
		Class: func(key client.ObjectKey) ([]byte, error) { return template.LocalClass(key.Name), nil }})
	if err != nil {
		f.Fatal(err)
	}
	raw, err := template.Objects(doc)
	if err != nil {
		f.Fatal(err)
	}
	var objects []client.Object
	for _, u := range raw {
		typed, err := f.Client.Scheme().New(u.GroupVersionKind())
		if err != nil {
			f.Fatal(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
			f.Fatal(err)
		}
		obj := typed.(client.Object)
		if s.change != nil {
			s.change(obj)
		}
		objects = append(objects, obj)
	}
	slices.SortStableFunc(objects, func(a, b client.Object) int { return cmp.Compare(rank(a), rank(b)) })
	return objects
}

// rank has what others refer to created before them: a class when its templates are
// there, and the Cluster last.
func rank(obj client.Object) int {
	switch obj.(type) {
	case *clusterv1.Cluster:
		return 2
	case *clusterv1.ClusterClass:
		return 1
	}
	return 0
}

func (f fleet) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: f.Namespace, Name: name}
}

// eventually waits for a step of a cluster.
func (f fleet) eventually(check func() error) {
	f.Helper()
	testenv.Eventually(f.T, check)
}

// becomes waits until a cluster reaches the desired state of its objects.
func (f fleet) becomes(name string) {
	f.Helper()
	f.eventually(func() error { return f.settled(name) })
}

// settled returns what a cluster still lacks.
func (f fleet) settled(name string) error {
	cluster := &clusterv1.Cluster{}
	if err := f.Client.Get(f.Context(), f.key(name), cluster); err != nil {
		return err
	}
	cp := &controlplanev1.KubeadmControlPlane{}
	if err := f.Client.Get(f.Context(), f.key(cluster.Spec.ControlPlaneRef.Name), cp); err != nil {
		return err
	}
	var deployments clusterv1.MachineDeploymentList
	if err := f.list(name, &deployments); err != nil {
		return err
	}
	want := *cp.Spec.Replicas
	missing := []error{counted(cluster), observed(cluster, cluster.Status.ObservedGeneration), observed(cp, cp.Status.ObservedGeneration),
		counters("KubeadmControlPlane "+cp.Name, want, cp.Status.Replicas, cp.Status.ReadyReplicas, cp.Status.AvailableReplicas, cp.Status.UpToDateReplicas),
		isTrue("KubeadmControlPlane "+cp.Name, cp, controlplanev1.KubeadmControlPlaneAvailableCondition)}
	for i := range deployments.Items {
		md := &deployments.Items[i]
		want += *md.Spec.Replicas
		missing = append(missing, observed(md, md.Status.ObservedGeneration), isTrue("MachineDeployment "+md.Name, md, clusterv1.AvailableCondition),
			counters("MachineDeployment "+md.Name, *md.Spec.Replicas, md.Status.Replicas, md.Status.ReadyReplicas, md.Status.AvailableReplicas, md.Status.UpToDateReplicas))
	}
	var pools clusterv1.MachinePoolList
	if err := f.list(name, &pools); err != nil {
		return err
	}
	for i := range pools.Items {
		mp := &pools.Items[i]
		want += *mp.Spec.Replicas
		missing = append(missing, observed(mp, mp.Status.ObservedGeneration), counters("MachinePool "+mp.Name, *mp.Spec.Replicas, mp.Status.Replicas, mp.Status.ReadyReplicas, mp.Status.AvailableReplicas, mp.Status.UpToDateReplicas))
	}
	machines, err := f.machines(name)
	if err != nil {
		return err
	}
	if len(machines) != int(want) {
		missing = append(missing, fmt.Errorf("%d Machines, want %d", len(machines), want))
	}
	for i := range machines {
		missing = append(missing, isTrue("Machine "+machines[i].Name, &machines[i], clusterv1.ReadyCondition))
	}
	return errors.Join(append(missing, isTrue("Cluster "+name, cluster, clusterv1.AvailableCondition))...)
}

// observed returns an error if a status is that of an earlier spec: its counters may be
// those from before the change.
func observed(obj client.Object, generation int64) error {
	if generation == obj.GetGeneration() {
		return nil
	}
	return fmt.Errorf("%T %s: status is of generation %d, want %d", obj, obj.GetName(), generation, obj.GetGeneration())
}

// counted returns an error if the Cluster has not aggregated the counts of its
// parts.
func counted(cluster *clusterv1.Cluster) error {
	if cp := cluster.Status.ControlPlane; cp != nil && cp.DesiredReplicas != nil {
		if err := counters("Cluster "+cluster.Name+", control plane", *cp.DesiredReplicas, cp.Replicas, cp.ReadyReplicas, cp.AvailableReplicas, cp.UpToDateReplicas); err != nil {
			return err
		}
	}
	if w := cluster.Status.Workers; w != nil && w.DesiredReplicas != nil {
		return counters("Cluster "+cluster.Name+", workers", *w.DesiredReplicas, w.Replicas, w.ReadyReplicas, w.AvailableReplicas, w.UpToDateReplicas)
	}
	return nil
}

func counters(what string, want int32, have ...*int32) error {
	for i, n := range have {
		if n == nil || *n != want {
			counter := []string{"replicas", "ready", "available", "up to date"}[i]
			return fmt.Errorf("%s: %s %v, want %d", what, counter, deref(n), want)
		}
	}
	return nil
}

func deref(n *int32) any {
	if n == nil {
		return "unknown"
	}
	return *n
}

func isTrue(what string, obj conditions.Getter, conditionType string) error {
	if conditions.IsTrue(obj, conditionType) {
		return nil
	}
	return fmt.Errorf("%s is not %s: %s", what, conditionType, conditions.Message(obj, conditionType))
}

func (f fleet) list(name string, list client.ObjectList) error {
	return f.Client.List(f.Context(), list, client.InNamespace(f.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
}

// machines returns the Machines of a cluster by name.
func (f fleet) machines(name string) ([]clusterv1.Machine, error) {
	var list clusterv1.MachineList
	err := f.list(name, &list)
	slices.SortFunc(list.Items, func(a, b clusterv1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, err
}

// uids returns which Machines a cluster has, as "UID name".
func (f fleet) uids(name string, of func(*clusterv1.Machine) bool) []string {
	f.Helper()
	machines, err := f.machines(name)
	if err != nil {
		f.Fatal(err)
	}
	var uids []string
	for i := range machines {
		if of(&machines[i]) {
			uids = append(uids, string(machines[i].UID)+" "+machines[i].Name)
		}
	}
	return uids
}

func every(*clusterv1.Machine) bool { return true }

func controlPlane(m *clusterv1.Machine) bool {
	_, ok := m.Labels[clusterv1.MachineControlPlaneLabel]
	return ok
}

func worker(m *clusterv1.Machine) bool { return !controlPlane(m) }

// modify reads an object, changes it and writes what differs.
func modify[T client.Object](f fleet, name string, obj T, change func(T)) {
	f.Helper()
	if err := f.Client.Get(f.Context(), f.key(name), obj); err != nil {
		f.Fatal(err)
	}
	before := obj.DeepCopyObject().(client.Object)
	change(obj)
	if err := f.Client.Patch(f.Context(), obj, client.MergeFrom(before)); err != nil {
		f.Fatal(err)
	}
}

// nodes lists the Nodes from the workload cluster itself, as its administrator.
func (f fleet) nodes(name string) ([]corev1.Node, error) {
	return f.nodesWithin(name, testenv.Limit(30*time.Second))
}

func (f fleet) nodesWithin(name string, limit time.Duration) ([]corev1.Node, error) {
	secret := &corev1.Secret{}
	if err := f.Client.Get(f.Context(), f.key(certs.SecretName(name, certs.Kubeconfig)), secret); err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		return nil, err
	}
	cfg.Timeout = limit
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	list, err := c.CoreV1().Nodes().List(f.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// says returns an error if a condition differs from a status and a part of the
// message.
func says(obj client.Object, conditionType, status, message string) error {
	c := conditions.Get(obj.(conditions.Getter), conditionType)
	if c == nil {
		return fmt.Errorf("%T %s has no condition %s", obj, obj.GetName(), conditionType)
	}
	if string(c.Status) != status || !strings.Contains(c.Message, message) {
		return fmt.Errorf("%T %s: %s is %s, reason %s, message %q; want %s with %q", obj, obj.GetName(), conditionType, c.Status, c.Reason, c.Message, status, message)
	}
	return nil
}
