// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/simulated"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// farm is a provider of infrastructure that follows the contract v1beta1, and runs
// in the process of the test.
type farm struct {
	fleet
	backend localinfra.Backend
}

const farmGroup = "infrastructure.example.com"

// newFarm defines the provider's kinds and runs it until the test ends.
func newFarm(f fleet) {
	f.Helper()
	for _, kind := range []string{"FarmCluster", "FarmClusterTemplate", "FarmMachine", "FarmMachineTemplate"} {
		crd := testenv.Kind(farmGroup, kind)
		crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1_v2", "cluster.x-k8s.io/v1beta2": ""}
		crd.Spec.Versions = append(crd.Spec.Versions, *crd.Spec.Versions[0].DeepCopy())
		crd.Spec.Versions[1].Name, crd.Spec.Versions[1].Storage = "v2", false
		f.Define(f.T, crd)
	}
	backend, err := simulated.New(simulated.Options{Dir: f.TempDir()})
	f.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if err := (farm{f, backend}).work(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
				f.Logf("the provider comes again: %v", err)
			}
		}
	}()
	f.Cleanup(func() {
		cancel()
		<-ended
		if err := backend.Close(); err != nil {
			f.Errorf("close the machines of the provider: %v", err)
		}
	})
}

// work reconciles each object once.
func (p farm) work(ctx context.Context) error {
	for kind, do := range map[string]func(context.Context, *unstructured.Unstructured) (map[string]any, error){"FarmCluster": p.cluster, "FarmMachine": p.machine} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(farmGroup + "/v1")
		list.SetKind(kind + "List")
		if err := p.Client.List(ctx, list); err != nil {
			return err
		}
		for i := range list.Items {
			obj := &list.Items[i]
			before := obj.DeepCopy()
			if belongsTo(obj) == "" {
				continue
			}
			status, err := do(ctx, obj)
			if err != nil {
				return err
			}
			if status != nil {
				status["ready"] = true
				status["conditions"] = []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}}
				obj.Object["status"] = status
			}
			if cmp.Equal(before, obj) {
				continue
			}
			if err := p.Client.Update(ctx, obj); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// belongsTo is the name of the Cluster or the Machine that an object belongs to; "" before
// its controller has taken it.
func belongsTo(obj *unstructured.Unstructured) string {
	for _, o := range obj.GetOwnerReferences() {
		if o.Kind == "Cluster" || o.Kind == "Machine" {
			return o.Name
		}
	}
	return ""
}

const farmFinalizer = farmGroup + "/farm"

func (p farm) cluster(ctx context.Context, obj *unstructured.Unstructured) (map[string]any, error) {
	id := localinfra.ID(obj.GetUID())
	if !obj.GetDeletionTimestamp().IsZero() {
		controllerutil.RemoveFinalizer(obj, farmFinalizer)
		return nil, p.backend.DeleteCluster(ctx, localinfra.Cluster{ID: id})
	}
	if controllerutil.AddFinalizer(obj, farmFinalizer) {
		return nil, nil
	}
	name := client.ObjectKey{Namespace: obj.GetNamespace(), Name: belongsTo(obj)}
	at, err := p.backend.EnsureCluster(ctx, localinfra.Cluster{NamespacedName: name, ID: id, Spec: infrav1.LocalClusterSpec{Simulated: &infrav1.LocalClusterSimulated{}}})
	if err != nil {
		return nil, err
	}
	obj.Object["spec"] = map[string]any{"controlPlaneEndpoint": map[string]any{"host": at.Host, "port": int64(at.Port)}}
	return map[string]any{"failureDomains": map[string]any{"b": map[string]any{"controlPlane": true}, "a": map[string]any{"attributes": map[string]any{"row": "1"}}}}, nil
}

func (p farm) machine(ctx context.Context, obj *unstructured.Unstructured) (map[string]any, error) {
	id, cluster := localinfra.ID(obj.GetUID()), client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[clusterv1.ClusterNameLabel]}
	if !obj.GetDeletionTimestamp().IsZero() {
		controllerutil.RemoveFinalizer(obj, farmFinalizer)
		return nil, p.backend.DeleteMachine(ctx, localinfra.Machine{NamespacedName: client.ObjectKeyFromObject(obj), ID: id, Cluster: cluster.Name})
	}
	m := &clusterv1.Machine{}
	if err := p.Client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: belongsTo(obj)}, m); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if controllerutil.AddFinalizer(obj, farmFinalizer) || m.Spec.Bootstrap.DataSecretName == nil {
		return nil, nil
	}
	data := &corev1.Secret{}
	if err := p.Client.Get(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: *m.Spec.Bootstrap.DataSecretName}, data); err != nil {
		return nil, err
	}
	_, done := obj.Object["status"]
	seen, err := p.backend.EnsureMachine(ctx, localinfra.Machine{
		NamespacedName: client.ObjectKeyFromObject(obj), ID: id, Cluster: cluster.Name, FailureDomain: m.Spec.FailureDomain, Version: m.Spec.Version,
		Provisioned: done, BootstrapData: data.Data["value"], Spec: infrav1.LocalMachineSpec{Simulated: &infrav1.LocalMachineSimulated{}},
	})
	if err != nil || seen.Stage != localinfra.Done {
		return nil, err
	}
	obj.Object["spec"] = map[string]any{"providerID": seen.ProviderID}
	var addresses []any
	for _, a := range seen.Addresses {
		addresses = append(addresses, map[string]any{"type": string(a.Type), "address": a.Address})
	}
	return map[string]any{"addresses": addresses}, nil
}

// relabel has the kubeadm providers follow the contract v1beta1 alone, as the
// releases do that users have.
func relabel(f fleet) {
	f.Helper()
	for _, name := range []string{
		"kubeadmconfigs.bootstrap", "kubeadmconfigtemplates.bootstrap", "kubeadmcontrolplanes.controlplane", "kubeadmcontrolplanetemplates.controlplane",
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name + ".cluster.x-k8s.io"}}
		f.must(f.Client.Patch(f.Context(), crd, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"labels": {"cluster.x-k8s.io/v1beta2": null}}}`))))
	}
}

// farmTemplates are what a plain cluster and a class have in common.
const farmTemplates = `
apiVersion: infrastructure.example.com/v1
kind: FarmMachineTemplate
metadata: {name: NAME}
spec: {template: {spec: {}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: KubeadmConfigTemplate
metadata: {name: NAME}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}}}}
---
`

// farmCluster is a plain cluster, as users of v1beta1 write it.
const farmCluster = farmTemplates + `
apiVersion: infrastructure.example.com/v1
kind: FarmCluster
metadata: {name: NAME}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: NAME-control-plane}
spec:
  replicas: 1
  version: v1.35.2
  machineTemplate:
    infrastructureRef: {apiVersion: infrastructure.example.com/v1, kind: FarmMachineTemplate, name: NAME}
    nodeDrainTimeout: 10s
  kubeadmConfigSpec:
    initConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}
    joinConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: NAME-workers, labels: {cluster.x-k8s.io/cluster-name: NAME}}
spec:
  clusterName: NAME
  replicas: 1
  selector: {}
  template:
    spec:
      clusterName: NAME
      version: v1.35.2
      bootstrap: {configRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, name: NAME}}
      infrastructureRef: {apiVersion: infrastructure.example.com/v1, kind: FarmMachineTemplate, name: NAME}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: NAME}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.244.0.0/16]}, services: {cidrBlocks: [10.96.0.0/16]}}
  infrastructureRef: {apiVersion: infrastructure.example.com/v1, kind: FarmCluster, name: NAME}
  controlPlaneRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlane, name: NAME-control-plane}
`

// farmClass is a class of the same provider, with a cluster of it.
const farmClass = farmTemplates + `
apiVersion: infrastructure.example.com/v1
kind: FarmClusterTemplate
metadata: {name: NAME}
spec: {template: {spec: {}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlaneTemplate
metadata: {name: NAME}
spec:
  template:
    spec:
      kubeadmConfigSpec:
        initConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}
        joinConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: ClusterClass
metadata: {name: NAME}
spec:
  infrastructure: {ref: {apiVersion: infrastructure.example.com/v1, kind: FarmClusterTemplate, name: NAME}}
  controlPlane:
    ref: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlaneTemplate, name: NAME}
    machineInfrastructure: {ref: {apiVersion: infrastructure.example.com/v1, kind: FarmMachineTemplate, name: NAME}}
    nodeDrainTimeout: 10s
  workers:
    machineDeployments:
    - class: worker
      template:
        bootstrap: {ref: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, name: NAME}}
        infrastructure: {ref: {apiVersion: infrastructure.example.com/v1, kind: FarmMachineTemplate, name: NAME}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: NAME}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.244.0.0/16]}, services: {cidrBlocks: [10.96.0.0/16]}}
  topology:
    class: NAME
    version: v1.35.2
    controlPlane: {replicas: 1}
    workers: {machineDeployments: [{class: worker, name: blue, replicas: 1}]}
`

// write creates the objects of a document.
func (f fleet) write(doc, name string) {
	f.Helper()
	objects, err := template.Objects([]byte(strings.ReplaceAll(doc, "NAME", name)))
	f.must(err)
	for _, obj := range objects {
		obj.SetNamespace(f.Namespace)
		f.eventually(func() error { // until a kind that was defined just now is served, and a class is there for all
			if err := f.Client.Create(f.Context(), obj); !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		})
	}
}

// TestProvidersOfTheOlderContract uses providers of infrastructure, bootstrap data
// and control plane that support only v1beta1 of the contract: a cluster is
// created, scaled, upgraded and deleted, as its users of v1beta1 write it.
func TestProvidersOfTheOlderContract(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	newFarm(f)
	relabel(f)
	t.Run("a plain cluster", func(t *testing.T) {
		t.Parallel()
		f := fleet{t, f.Env}
		f.write(farmCluster, "plain")
		f.eventually(func() error { return f.has("plain", 2) })
		f.onFarm("plain", 2)
		for _, n := range []int32{3, 1} {
			modify(f, "plain-control-plane", &controlplanev1.KubeadmControlPlane{}, func(cp *controlplanev1.KubeadmControlPlane) { cp.Spec.Replicas = &n })
			modify(f, "plain-workers", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &n })
			f.eventually(func() error { return f.has("plain", int(2*n)) })
		}
		modify(f, "plain-control-plane", &controlplanev1.KubeadmControlPlane{}, func(cp *controlplanev1.KubeadmControlPlane) { cp.Spec.Version = "v1.36.3" })
		f.eventually(func() error { return f.runs("plain", controlPlane, "v1.36.3") })
		modify(f, "plain-workers", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v1.36.3" })
		f.eventually(func() error { return f.runs("plain", every, "v1.36.3") })
		f.remove("plain")
	})
	t.Run("a cluster of a class", func(t *testing.T) {
		t.Parallel()
		f := fleet{t, f.Env}
		f.write(farmClass, "of-class")
		f.eventually(func() error { return f.upFromClass("of-class") })
		f.onFarm("of-class", 2)
		kept := f.uids("of-class", every)
		scale := func(n int32) func(*clusterv1.Cluster) {
			return func(c *clusterv1.Cluster) {
				c.Spec.Topology.ControlPlane.Replicas, c.Spec.Topology.Workers.MachineDeployments[0].Replicas = &n, &n
			}
		}
		modify(f, "of-class", &clusterv1.Cluster{}, scale(3))
		f.eventually(func() error { return f.has("of-class", 6) })
		for _, uid := range kept {
			if !slices.Contains(f.uids("of-class", every), uid) {
				t.Errorf("Machine %s was replaced", uid)
			}
		}
		f.refersTo("of-class", farmGroup+"/v2")
		modify(f, "of-class", &clusterv1.Cluster{}, scale(1))
		f.eventually(func() error { return f.has("of-class", 2) })
		modify(f, "of-class", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = "v1.36.3" })
		f.eventually(func() error { return f.runs("of-class", every, "v1.36.3") })
		f.remove("of-class")
	})
}

// upFromClass is settled, of a cluster that may have nothing yet.
func (f fleet) upFromClass(name string) error {
	c := &clusterv1.Cluster{}
	if err := f.Client.Get(f.Context(), f.key(name), c); err != nil {
		return err
	}
	if !c.Spec.ControlPlaneRef.IsDefined() {
		return fmt.Errorf("Cluster %s has no control plane yet: %v", name, isTrue(name, c, clusterv1.ClusterTopologyReconciledCondition)) // a kind's name
	}
	if err := isTrue("Cluster "+name, c, clusterv1.ClusterTopologyReconciledCondition); err != nil {
		return err
	}
	return f.settled(name)
}

// has returns what a cluster lacks that should have so many Machines.
func (f fleet) has(name string, machines int) error {
	if n := len(f.uids(name, every)); n != machines {
		return fmt.Errorf("%d Machines, want %d", n, machines)
	}
	return f.settled(name)
}

// runs returns which Machines have another version, or what the cluster lacks.
func (f fleet) runs(name string, of func(*clusterv1.Machine) bool, version string) error {
	machines, err := f.machines(name)
	if err != nil {
		return err
	}
	for i := range machines {
		if m := &machines[i]; of(m) && m.Spec.Version != version {
			return fmt.Errorf("Machine %s has version %s, want %s", m.Name, m.Spec.Version, version)
		}
	}
	return f.settled(name)
}

// onFarm holds what core has read of the provider's objects.
func (f fleet) onFarm(name string, machines int) {
	f.Helper()
	c := &clusterv1.Cluster{}
	f.must(f.Client.Get(f.Context(), f.key(name), c))
	want := []clusterv1.FailureDomain{{Name: "a", ControlPlane: new(false), Attributes: map[string]string{"row": "1"}}, {Name: "b", ControlPlane: new(true)}}
	if diff := cmp.Diff(want, c.Status.FailureDomains); diff != "" {
		f.Errorf("failure domains (-want +got):\n%s", diff)
	}
	f.must(f.says(c, clusterv1.ClusterInfrastructureReadyCondition, "True", ""))
	all, err := f.machines(name)
	f.must(err)
	if len(all) != machines {
		f.Errorf("%d Machines, want %d", len(all), machines)
	}
	for i := range all {
		m := &all[i]
		f.must(says(m, clusterv1.MachineInfrastructureReadyCondition, "True", ""))
		if len(m.Status.Addresses) == 0 || !strings.HasPrefix(m.Spec.ProviderID, "simulated://") || !ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false) {
			f.Errorf("Machine %s has provider ID %q, addresses %v", m.Name, m.Spec.ProviderID, m.Status.Addresses)
		}
		if controlPlane(m) && ptr.Deref(m.Spec.Deletion.NodeDrainTimeoutSeconds, 0) != 10 {
			f.Errorf("Machine %s has the timeouts %+v", m.Name, m.Spec.Deletion)
		}
	}
}

// refersTo holds the version at which the control plane refers to the template of
// its machines: the latest that the definition names, not that of the class.
func (f fleet) refersTo(name, apiVersion string) {
	f.Helper()
	c := &clusterv1.Cluster{}
	f.must(f.Client.Get(f.Context(), f.key(name), c))
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta1")
	u.SetKind("KubeadmControlPlane")
	f.must(f.Client.Get(f.Context(), f.key(c.Spec.ControlPlaneRef.Name), u))
	ref := corev1.ObjectReference{}
	at, _, err := unstructured.NestedMap(u.Object, "spec", "machineTemplate", "infrastructureRef")
	f.must(err)
	f.must(runtime.DefaultUnstructuredConverter.FromUnstructured(at, &ref))
	if ref.APIVersion != apiVersion || ref.Namespace != f.Namespace {
		f.Errorf("the control plane refers to %+v, want apiVersion %s", ref, apiVersion)
	}
}
