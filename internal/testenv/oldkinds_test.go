// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
	"github.com/capstan-dev/capstan/manifests"
)

// oldObjects is one of each kind at each old version. What they name is not there.
const oldObjects = `
{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, spec: {paused: true, controlPlaneEndpoint: {host: h, port: 1}, clusterNetwork: {apiServerPort: 6443, pods: {cidrBlocks: [10.0.0.0/16]}}, controlPlaneRef: {apiVersion: x.io/v1, kind: Plane, name: plane}, infrastructureRef: {apiVersion: x.io/v1, kind: Net, name: net}}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: ClusterClass, spec: {
  infrastructure: {ref: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: a}},
  controlPlane: {ref: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlaneTemplate, name: a}, nodeDrainTimeout: 5m},
  variables: [{name: v, required: false, schema: {openAPIV3Schema: {type: string, default: d}}}],
  patches: [{name: p, enabledIf: '{{ eq .v "x" }}', definitions: [{selector: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlaneTemplate, matchResources: {controlPlane: true}}, jsonPatches: [{op: add, path: /spec/template/spec/rolloutAfter, value: '2026-01-01T00:00:00Z'}]}]}]}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, spec: {clusterName: c, version: v1.34.0, nodeDrainTimeout: 10m, bootstrap: {dataSecretName: s}, infrastructureRef: {apiVersion: x.io/v1, kind: Host, name: h}}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineSet, spec: {clusterName: c, replicas: 0, minReadySeconds: 5, deletePolicy: Oldest, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiVersion: x.io/v1, kind: HostTemplate, name: h}}}}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineDeployment, spec: {clusterName: c, replicas: 0, minReadySeconds: 0, progressDeadlineSeconds: 600, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0, deletePolicy: Newest}}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c, nodeDeletionTimeout: 90s, bootstrap: {dataSecretName: s}, infrastructureRef: {apiVersion: x.io/v1, kind: HostTemplate, name: h}}}}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachinePool, spec: {clusterName: c, replicas: 0, minReadySeconds: 0, template: {spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiVersion: x.io/v1, kind: HostPool, name: h}}}}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineHealthCheck, spec: {clusterName: c, maxUnhealthy: 40%, nodeStartupTimeout: 20m, selector: {matchLabels: {a: b}}, unhealthyConditions: [{type: Ready, status: "False", timeout: 5m}]}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineDrainRule, spec: {drain: {behavior: Skip}, pods: [{selector: {matchLabels: {a: b}}}]}}
---
{apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfig, spec: {useExperimentalRetryJoin: true, joinConfiguration: {discovery: {timeout: 5m}, nodeRegistration: {kubeletExtraArgs: {v: "2", a: b}, taints: []}}, files: [{path: /a, content: b, append: false}]}}
---
{apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, spec: {template: {spec: {files: [], joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {v: "2", a: b}}}}}}}
---
{apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlane, spec: {replicas: 1, version: v1.34.0, rolloutAfter: '2026-01-01T00:00:00Z', machineTemplate: {nodeDrainTimeout: 10m, infrastructureRef: {apiVersion: x.io/v1, kind: HostTemplate, name: h}}, remediationStrategy: {retryPeriod: 20m}, kubeadmConfigSpec: {clusterConfiguration: {clusterName: c, apiServer: {timeoutForControlPlane: 4m, extraArgs: {v: "2"}}}}}}
---
{apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlaneTemplate, spec: {template: {spec: {rolloutStrategy: {rollingUpdate: {maxSurge: 1}}, machineTemplate: {nodeDrainTimeout: 1h}, kubeadmConfigSpec: {initConfiguration: {nodeRegistration: {taints: []}}}}}}}
---
{apiVersion: addons.cluster.x-k8s.io/v1beta1, kind: ClusterResourceSet, spec: {clusterSelector: {matchLabels: {a: b}}, resources: [{kind: Secret, name: s}]}}
---
{apiVersion: addons.cluster.x-k8s.io/v1beta1, kind: ClusterResourceSetBinding, spec: {clusterName: c, bindings: [{clusterResourceSetName: s, resources: [{kind: Secret, name: s, applied: false}]}]}}
---
{apiVersion: ipam.cluster.x-k8s.io/v1beta1, kind: IPAddress, spec: {address: 10.0.0.1, prefix: 24, claimRef: {name: c}, poolRef: {apiGroup: x.io, kind: Pool, name: p}}}
---
{apiVersion: ipam.cluster.x-k8s.io/v1beta1, kind: IPAddressClaim, spec: {clusterName: c, poolRef: {apiGroup: x.io, kind: Pool, name: p}}}
---
{apiVersion: ipam.cluster.x-k8s.io/v1alpha1, kind: IPAddress, spec: {address: 10.0.0.1, prefix: 24, claimRef: {name: c}, poolRef: {apiGroup: x.io, kind: Pool, name: p}}}
---
{apiVersion: ipam.cluster.x-k8s.io/v1alpha1, kind: IPAddressClaim, spec: {poolRef: {apiGroup: x.io, kind: Pool, name: p}}}
---
{apiVersion: runtime.cluster.x-k8s.io/v1alpha1, kind: ExtensionConfig, spec: {clientConfig: {url: 'https://127.0.0.1:1'}}}
`

// kindAt is one object at two versions.
type kindAt struct {
	*testing.T
	name     string
	old, new dynamic.ResourceInterface
}

// try repeats what conflicts with another write: the plane's own controllers handle
// deletions.
func (k kindAt) try(do func() (*unstructured.Unstructured, error)) (obj *unstructured.Unstructured) {
	k.Helper()
	testenv.Eventually(k, func() (err error) {
		if obj, err = do(); err != nil && !apierrors.IsConflict(err) {
			k.Fatal(err)
		}
		return err
	})
	return obj
}

func (k kindAt) get(c dynamic.ResourceInterface) *unstructured.Unstructured {
	k.Helper()
	return k.try(func() (*unstructured.Unstructured, error) { return c.Get(k.Context(), k.name, metav1.GetOptions{}) })
}

func (k kindAt) patch(c dynamic.ResourceInterface, patch string) *unstructured.Unstructured {
	k.Helper()
	return k.try(func() (*unstructured.Unstructured, error) {
		return c.Patch(k.Context(), k.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "patcher"})
	})
}

func (k kindAt) apply(c dynamic.ResourceInterface, manager string, obj *unstructured.Unstructured) *unstructured.Unstructured {
	k.Helper()
	obj = &unstructured.Unstructured{Object: map[string]any{"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind(), "spec": obj.Object["spec"]}}
	obj.SetName(k.name)
	return k.try(func() (*unstructured.Unstructured, error) {
		return c.Apply(k.Context(), k.name, obj, metav1.ApplyOptions{FieldManager: manager, Force: true})
	})
}

// TestEveryKindIsWrittenAtItsOldVersions goes through all that clients do. A
// repeated write of the same content, in any form and at any version, is no change.
func TestEveryKindIsWrittenAtItsOldVersions(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	startOn(t, dir, "--providers=local") // whose kinds have no old version: there are no other writers
	env, err := testenv.Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	env.Namespace = metav1.NamespaceDefault
	all, err := dynamic.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	objs, err := template.Objects([]byte(oldObjects))
	if err != nil {
		t.Fatal(err)
	}
	missing := oldVersions(t)
	for _, obj := range objs {
		delete(missing, obj.GetAPIVersion()+" "+obj.GetKind())
		t.Run(obj.GetAPIVersion()+" "+obj.GetKind(), func(t *testing.T) {
			t.Parallel()
			k := kindAt{T: t, name: obj.GroupVersionKind().Version}
			for version, c := range map[string]*dynamic.ResourceInterface{obj.GroupVersionKind().Version: &k.old, "v1beta2": &k.new} {
				m, err := env.Client.RESTMapper().RESTMapping(obj.GroupVersionKind().GroupKind(), version)
				if err != nil {
					t.Fatal(err)
				}
				*c = all.Resource(m.Resource)
				if m.Scope.Name() == meta.RESTScopeNameNamespace {
					*c = all.Resource(m.Resource).Namespace(env.Namespace)
				}
			}
			obj.SetName(k.name)
			written(k, obj)
		})
	}
	for name := range missing {
		t.Errorf("%s is not tried", name)
	}
}

// oldVersions are all that are served.
func oldVersions(t *testing.T) map[string]bool {
	t.Helper()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	old := map[string]bool{}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if !v.Storage {
				old[crd.Spec.Group+"/"+v.Name+" "+crd.Spec.Names.Kind] = true
			}
		}
	}
	return old
}

func written(k kindAt, obj *unstructured.Unstructured) {
	made := k.apply(k.old, "user", obj)
	var generation int64
	same := func(what string, now *unstructured.Unstructured) {
		k.Helper()
		if now.GetGeneration() != generation {
			k.Errorf("%s is taken for a change of spec", what)
		}
	}
	first := k.get(k.new)
	if generation = first.GetGeneration(); first.GetAPIVersion() == made.GetAPIVersion() || first.Object["spec"] == nil {
		k.Errorf("at the new version it is %v", first.Object)
	}
	if diff := cmp.Diff(made.Object["spec"], k.get(k.old).Object["spec"]); diff != "" {
		k.Errorf("read as it was answered (-want +got):\n%s", diff)
	}
	same("the same by the server", k.apply(k.old, "user", obj))
	same("the same by another manager", k.apply(k.old, "other", obj))
	same("what is read at the new version", k.apply(k.new, "user", first))
	same("the same at the old version again", k.apply(k.old, "user", obj))
	spec, err := json.Marshal(map[string]any{"spec": obj.Object["spec"]})
	if err != nil {
		k.Fatal(err)
	}
	same("the same as a patch", k.patch(k.old, string(spec)))
	same("what was read", k.try(func() (*unstructured.Unstructured, error) {
		return k.old.Update(k.Context(), k.get(k.old), metav1.UpdateOptions{})
	}))
	if diff := cmp.Diff(first.Object["spec"], k.get(k.new).Object["spec"]); diff != "" {
		k.Errorf("stored (-want +got):\n%s", diff)
	}
	watched(k)
	removed(k)
}

// watched is a change at the new version that a watch of the old one shows.
func watched(k kindAt) {
	list, err := k.old.List(k.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + k.name})
	if err != nil || len(list.Items) != 1 {
		k.Fatalf("listed %d, %v", len(list.Items), err)
	}
	events, err := k.old.Watch(k.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), FieldSelector: "metadata.name=" + k.name})
	if err != nil {
		k.Fatal(err)
	}
	defer events.Stop()
	k.patch(k.new, `{"metadata": {"labels": {"changed": "x"}}}`)
	for event := range events.ResultChan() {
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok || obj.GetAPIVersion() != list.Items[0].GetAPIVersion() {
			k.Fatalf("watched %v", event)
		}
		if obj.GetLabels()["changed"] == "x" {
			return
		}
	}
	k.Error("the watch ended without the change")
}

// removed is a deletion at the old version, held by a finalizer until that is taken
// away at the new one.
func removed(k kindAt) {
	k.patch(k.old, `{"metadata": {"finalizers": ["example.com/held"]}}`)
	if err := k.old.Delete(k.Context(), k.name, metav1.DeleteOptions{}); err != nil {
		k.Fatal(err)
	}
	if k.get(k.new).GetDeletionTimestamp() == nil {
		k.Error("the deletion does not show at the new version")
	}
	k.patch(k.new, `{"metadata": {"finalizers": null}}`)
	testenv.Eventually(k, func() error {
		_, err := k.old.Get(k.Context(), k.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(fmt.Errorf("%s is still there", k.name), err)
	})
}

// TestAnObjectThatNoNewSchemaAllowsIsRefused: the error names the field to the
// client, and nothing of the object is stored.
func TestAnObjectThatNoNewSchemaAllowsIsRefused(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	all, err := dynamic.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ resource, text, want string }{
		"a reference without a group": {"machines", "{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {kind: Host, name: h}}}", "spec.infrastructureRef.apiGroup"},
		"an apiVersion that is none":  {"machines", "{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiVersion: a/b/c, kind: Host, name: h}}}", "spec.infrastructureRef.apiVersion"},
		"a duration below zero":       {"machines", "{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, spec: {clusterName: c, nodeDrainTimeout: -1s, bootstrap: {dataSecretName: s}, infrastructureRef: {apiVersion: x.io/v1, kind: Host, name: h}}}", "spec.deletion.nodeDrainTimeoutSeconds"},
		"the same key twice":          {"machines", "{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, spec: {clusterName: c, readinessGates: [{conditionType: A}, {conditionType: A}], bootstrap: {dataSecretName: s}, infrastructureRef: {apiVersion: x.io/v1, kind: Host, name: h}}}", "spec.readinessGates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objs, err := template.Objects([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			obj := objs[0]
			obj.SetName(strings.ReplaceAll(name, " ", "-"))
			kind := obj.GroupVersionKind()
			c := all.Resource(kind.GroupVersion().WithResource(tc.resource)).Namespace(env.Namespace)
			for how, write := range map[string]func(context.Context) error{
				"create": func(ctx context.Context) error { _, err := c.Create(ctx, obj, metav1.CreateOptions{}); return err },
				"apply": func(ctx context.Context) error {
					_, err := c.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "user"})
					return err
				},
			} {
				if err := write(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: %v, want %s named", how, err, tc.want)
				}
			}
			if _, err := c.Get(t.Context(), obj.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
