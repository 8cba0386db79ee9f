// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/apply"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/controller/topology"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/writes"
	"github.com/capstan-dev/capstan/internal/sim"
)

const class = `
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalClusterTemplate
metadata: {name: t}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalMachineTemplate
metadata: {name: t}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalMachinePoolTemplate
metadata: {name: t}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: t}
spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {encryptionAlgorithm: ECDSA-P256}}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: t}
spec: {template: {spec: {format: cloud-config}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: class}
spec:
  kubernetesVersions: [v1.33.0, v1.34.0, v1.35.0]
  infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: t}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: t}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: t}}
  workers:
    machineDeployments:
    - class: plain
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: t}}
      infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: t}}
      healthCheck: {checks: {nodeStartupTimeoutSeconds: 900}}
    - class: other
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: t}}
      infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: t}}
    machinePools:
    - class: pool
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: t}}
      infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachinePoolTemplate, name: t}}
`

const cluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, finalizers: [cluster.cluster.x-k8s.io]}
spec:
  topology:
    classRef: {name: class}
    version: v1.33.0
    controlPlane: {replicas: 1}
    workers: {machineDeployments: [{class: plain, name: a, replicas: 1}]}
`

// world is a store with a class, and the reconciler, which tests call directly.
type world struct {
	*testing.T
	*sim.World
	r     *topology.Reconciler
	mgmt  client.Client
	hooks hooks
	wrote []string // requests, by verb, kind and name
	told  []string // events
	spare int      // writes that still go through; -1 for any number
}

var errCrash = errors.New("the process has ended")

// newWorld returns a world with a class, in which changes replaces some text.
func newWorld(t *testing.T, changes ...string) *world {
	t.Helper()
	s, err := sim.NewWorld(sim.Options{Clock: sim.NewClock(time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC))})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, World: s, hooks: hooks{}, spare: -1}
	w.mgmt = interceptor.NewClient(s.Mgmt, writes.Before(func(verb string, obj client.Object) error {
		if w.spare == 0 {
			return errCrash
		}
		w.spare--
		gvk, err := s.Mgmt.GroupVersionKindFor(obj)
		w.wrote = append(w.wrote, strings.Join([]string{verb, gvk.Kind, obj.GetName()}, " "))
		return err
	}))
	w.restart()
	w.add(strings.NewReplacer(changes...).Replace(class))
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// restart drops everything that the reconciler caches.
func (w *world) restart() {
	w.r = &topology.Reconciler{
		Deps:       deps.Deps{Mgmt: w.mgmt, Live: w.mgmt, Providers: provider.New(w.mgmt, nil), Workload: unconnected{}, Clock: w.Clock, Recorder: w, Deprecated: true},
		Classes:    classes.New(w.mgmt),
		Schemas:    apply.NewSchemas(w.mgmt, w.mgmt),
		Extensions: w.hooks,
	}
}

// unconnected are workload clusters that do not answer.
type unconnected struct{ workload.Clusters }

func (unconnected) Client(context.Context, client.ObjectKey) (client.Client, error) {
	return nil, workload.ErrNotConnected
}

// hooks are the answers of extensions, by the hook's name or, for a patch, by the
// handler's. An absent extension has no objection.
type hooks map[string]func(request hooksv1.RequestObject, response hooksv1.ResponseObject) error

func (hooks) Source(extensions.ToRequests) source.Source { return nil }

func (h hooks) CallAllExtensions(_ context.Context, _ any, _ metav1.Object, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	name := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", request), "*v1alpha1."), "Request")
	if answer := h[name]; answer != nil {
		return answer(request, response)
	}
	return nil
}

func (h hooks) CallExtension(_ context.Context, _ any, _ metav1.Object, name string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	if answer := h[name]; answer != nil {
		return answer(request, response)
	}
	return fmt.Errorf("handler %q is not known", name)
}

func (h hooks) Reject(_ any, name string, _ hooksv1.RequestObject) {
	if note := h["reject "+name]; note != nil {
		_ = note(nil, nil) // it has no error
	}
}

// blocks is an answer that delays the next steps.
func blocks(_ hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	response.(hooksv1.RetryResponseObject).SetRetryAfterSeconds(10)
	response.SetMessage("not yet")
	return nil
}

// Eventf implements events.EventRecorder.
func (w *world) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	w.told = append(w.told, reason+": "+fmt.Sprintf(note, args...))
}

// add creates objects as users do.
func (w *world) add(documents string) {
	w.Helper()
	for _, doc := range strings.Split(documents, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			w.Fatal(err)
		}
		u.SetNamespace("default")
		if err := w.Mgmt.Create(w.Context(), u); err != nil {
			w.Fatal(err)
		}
	}
}

// cluster reads the Cluster; nil if it was deleted.
func (w *world) cluster() *clusterv1.Cluster {
	w.Helper()
	c := &clusterv1.Cluster{}
	err := w.Mgmt.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: "c"}, c)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// once reconciles the Cluster once.
func (w *world) once() (ctrl.Result, error) {
	w.Helper()
	w.wrote, w.told = nil, nil
	return w.r.Reconcile(w.Context(), w.cluster())
}

// must reconciles once, without a failure.
func (w *world) must() ctrl.Result {
	w.Helper()
	res, err := w.once()
	if err != nil {
		w.Fatal(err)
	}
	return res
}

// edit changes an object as a user does.
func edit[T client.Object](w *world, name string, obj T, change func(T)) {
	w.Helper()
	if err := w.Mgmt.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, obj); err != nil {
		w.Fatal(err)
	}
	before := obj.DeepCopyObject().(client.Object)
	change(obj)
	if err := w.Mgmt.Patch(w.Context(), obj, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

// topology changes the topology of the Cluster as a user does.
func (w *world) topology(change func(*clusterv1.Topology)) {
	w.Helper()
	edit(w, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { change(&c.Spec.Topology) })
}

// names lists the objects of a kind that are of a topology.
func (w *world) names(apiVersion, kind string) (names []string) {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	if err := w.Mgmt.List(w.Context(), list, client.HasLabels{clusterv1.ClusterTopologyOwnedLabel}); err != nil {
		w.Fatal(err)
	}
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	slices.Sort(names)
	return names
}

// all lists all objects of the topology except the Cluster.
func (w *world) all() (all []string) {
	w.Helper()
	for _, of := range [][2]string{
		{infra, "LocalCluster"}, {infra, "LocalMachineTemplate"}, {infra, "LocalMachinePool"}, {"controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"},
		{bootstrap, "KubeadmConfigTemplate"}, {bootstrap, "KubeadmConfig"}, {core, "MachineDeployment"}, {core, "MachinePool"}, {core, "MachineHealthCheck"},
	} {
		for _, name := range w.names(of[0], of[1]) {
			all = append(all, of[1]+" "+name)
		}
	}
	return all
}

const (
	core      = "cluster.x-k8s.io/v1beta2"
	infra     = "infrastructure.capstan.dev/v1beta2"
	bootstrap = "bootstrap.cluster.x-k8s.io/v1beta2"
)

// reconciled fails unless condition TopologyReconciled is as desired.
func (w *world) reconciled(want string) {
	w.Helper()
	c := conditions.Get(w.cluster(), clusterv1.ClusterTopologyReconciledCondition)
	if c == nil {
		w.Fatal("no condition TopologyReconciled")
	}
	if got := strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)); !strings.Contains(got, want) {
		w.Errorf("TopologyReconciled is\n%s\nwant\n%s", got, want)
	}
}
