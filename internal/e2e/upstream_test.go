// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/testenv"
	"github.com/capstan-dev/capstan/manifests"
)

// newUpstream is a management cluster with the definitions that upstream's 1.10
// had, and those of a provider.
func newUpstream(t *testing.T) fleet {
	t.Helper()
	f := fleet{t, testenv.Foreign(t)}
	f.Namespace = metav1.NamespaceDefault
	crds, err := manifests.CRDs()
	f.must(err)
	for _, crd := range crds {
		if asBefore(crd) {
			f.must(f.Client.Create(t.Context(), crd))
		}
	}
	f.provide()
	return f
}

// provide defines the kinds of a provider that keeps contract v1beta1.
func (f fleet) provide() {
	f.Helper()
	for _, kind := range []string{"FooCluster", "FooMachine", "FooMachineTemplate"} {
		crd := testenv.Kind("infrastructure.cluster.x-k8s.io", kind)
		crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1"}
		crd.Spec.Versions[0].Name = "v1beta1"
		crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		f.must(f.Client.Create(f.Context(), crd))
	}
}

// asBefore restores a definition to its state before v1beta2 existed, unless it was
// none of upstream's.
func asBefore(crd *apiextensionsv1.CustomResourceDefinition) bool {
	crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1beta2" })
	if len(crd.Spec.Versions) == 0 || crd.Spec.Group == "infrastructure.capstan.dev" {
		return false
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		v.Deprecated, v.Storage = false, i == len(crd.Spec.Versions)-1
	}
	delete(crd.Labels, "cluster.x-k8s.io/v1beta2")
	return true
}

// restore stores the objects of a file as a backup is restored: each with its
// status, and then with its owners, by their new UIDs, and its managedFields. change may change what is
// stored.
func (f fleet) restore(file string, change func(*unstructured.Unstructured)) {
	f.Helper()
	text, err := os.ReadFile(file)
	f.must(err)
	var all []*unstructured.Unstructured
	owners, fields := map[*unstructured.Unstructured][]metav1.OwnerReference{}, map[*unstructured.Unstructured]any{}
	uids := map[string]types.UID{}
	documents := utilyaml.NewDocumentDecoder(readCloser{bytes.NewReader(text)})
	for buffer := make([]byte, len(text)); ; {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			break
		}
		f.must(err)
		obj := &unstructured.Unstructured{}
		f.must(yaml.Unmarshal(buffer[:n], &obj.Object))
		change(obj)
		obj.SetNamespace(f.Namespace)
		owners[obj] = obj.GetOwnerReferences()
		fields[obj], _, err = unstructured.NestedFieldCopy(obj.Object, "metadata", "managedFields")
		f.must(err)
		obj.SetOwnerReferences(nil) // the UIDs of owners that do not exist yet are not known
		status := obj.Object["status"]
		f.eventually(func() error { return f.Client.Create(f.Context(), obj) }) // when its kind is served
		if status != nil {
			f.must(f.Client.Status().Patch(f.Context(), obj, f.merge("status", status)))
		}
		uids[obj.GetKind()+" "+obj.GetName()] = obj.GetUID()
		all = append(all, obj)
	}
	for _, obj := range all {
		refs := owners[obj]
		for i, ref := range refs {
			refs[i].UID = uids[ref.Kind+" "+ref.Name]
		}
		meta := map[string]any{"ownerReferences": refs}
		if fields[obj] != nil { // a server takes them in an update alone
			meta["managedFields"] = fields[obj]
		}
		f.must(f.Client.Patch(f.Context(), obj, f.merge("metadata", meta)))
	}
}

// merge is a merge patch of one field.
func (f fleet) merge(field string, value any) client.Patch {
	f.Helper()
	body, err := json.Marshal(map[string]any{field: value})
	f.must(err)
	return client.RawPatch(types.MergePatchType, body)
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// migrated reports what is still to be migrated.
func (f fleet) migrated() error {
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	f.must(f.Client.List(f.Context(), crds))
	var errs []error
	for _, crd := range crds.Items {
		if !strings.HasSuffix(crd.Spec.Group, "cluster.x-k8s.io") || crd.Spec.Group == "infrastructure.cluster.x-k8s.io" || crd.Spec.Group == "clusterctl.cluster.x-k8s.io" {
			continue
		}
		noted := crd.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation]
		if !slices.Equal(crd.Status.StoredVersions, []string{"v1beta2"}) || noted != fmt.Sprint(crd.Generation) {
			errs = append(errs, fmt.Errorf("%s: stored at %v, observed generation %q of %d", crd.Name, crd.Status.StoredVersions, noted, crd.Generation))
		}
	}
	return errors.Join(errs...)
}

// identities returns of objects what changes when one is created again, or gets
// another owner or spec. Owners have no version of the reference, which is updated,
// and labels no name of the Cluster, which templates get.
func (f fleet) identities(kinds ...schema.GroupVersionKind) map[string]string {
	f.Helper()
	out := map[string]string{}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		f.must(f.Client.List(f.Context(), list))
		for _, o := range list.Items {
			var owners []string
			for _, ref := range o.GetOwnerReferences() {
				// A Cluster without a topology controls nothing since upstream's release 1.14.
				controls := ptr.Deref(ref.Controller, false) && ref.Kind != clusterv1.ClusterKind
				owners = append(owners, fmt.Sprint(ref.Kind, " ", ref.Name, " ", ref.UID, " ", controls))
			}
			labels := o.GetLabels()
			delete(labels, clusterv1.ClusterNameLabel)
			generation := o.GetGeneration()
			if _, ok := labels[clusterv1.MachineControlPlaneLabel]; ok {
				generation = 0 // new gates are set in place
			}
			out[kind.Kind+" "+o.GetName()] = fmt.Sprint(o.GetUID(), " generation ", generation, " deleted ", o.GetDeletionTimestamp(), " labels ", labels, " owners ", owners)
		}
	}
	return out
}

// resting reports what is not yet as controllers leave it that have nothing to do.
func (f fleet) resting(kinds ...schema.GroupVersionKind) error {
	want := map[string]map[string]string{
		"Machine":             {"UpToDate": "True"},
		"MachineDeployment":   {"RollingOut": "False", "ScalingUp": "False", "ScalingDown": "False"},
		"MachineSet":          {"MachinesUpToDate": "True", "ScalingUp": "False", "ScalingDown": "False"},
		"KubeadmControlPlane": {"RollingOut": "False", "MachinesUpToDate": "True", "ScalingUp": "False", "ScalingDown": "False"},
	}
	var errs []error
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := f.Client.List(f.Context(), list); err != nil {
			return err // the version may not be served yet
		}
		for _, o := range list.Items {
			conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
			f.must(err)
			have := map[string]string{}
			for _, cond := range conditions {
				cond := cond.(map[string]any)
				have[fmt.Sprint(cond["type"])] = fmt.Sprintf("%v %v: %v", cond["status"], cond["reason"], cond["message"])
			}
			replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
			for name, status := range want[kind.Kind] {
				none := kind.Kind == "MachineSet" && replicas == 0 && name == "MachinesUpToDate"
				if got := have[name]; !strings.HasPrefix(got, status) && !none {
					errs = append(errs, fmt.Errorf("%s %s: %s is %q", kind.Kind, o.GetName(), name, got))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func gvks(version string, kinds ...string) (all []schema.GroupVersionKind) {
	for _, k := range kinds {
		group, kind, _ := strings.Cut(k, "/")
		all = append(all, schema.GroupVersionKind{Group: strings.TrimPrefix(group+".cluster.x-k8s.io", "."), Version: version, Kind: kind})
	}
	return all
}

// kept are the kinds of a cluster whose objects have to stay as they are.
func kept(version string) []schema.GroupVersionKind {
	return append(gvks(version, "/Cluster", "/Machine", "/MachineSet", "/MachineDeployment", "/MachineHealthCheck",
		"bootstrap/KubeadmConfig", "bootstrap/KubeadmConfigTemplate", "controlplane/KubeadmControlPlane"),
		gvks("v1beta1", "infrastructure/FooCluster", "infrastructure/FooMachine", "infrastructure/FooMachineTemplate")...)
}

// TestAnInstallationOfUpstreamIsTakenOver installs the manager in place of
// upstream's 1.10: nothing is replaced, and nothing is left at the old version.
func TestAnInstallationOfUpstreamIsTakenOver(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	f := newUpstream(t)
	f.restore("testdata/upstream-1.10.yaml", func(*unstructured.Unstructured) {})
	before := f.identities(kept("v1beta1")...)
	f.runManager(f.Kubeconfig, "--providers=core,kubeadm", "--install=true")
	f.eventually(func() error { return errors.Join(f.migrated(), f.resting(kept("v1beta2")...)) })
	for _, version := range []string{"v1beta1", "v1beta2"} {
		if diff := cmp.Diff(before, f.identities(kept(version)...)); diff != "" {
			t.Errorf("objects at %s (-before +after):\n%s", version, diff)
		}
	}
	// What upstream's manager has set on its Machines and ours does not is removed.
	machines := &clusterv1.MachineList{}
	f.must(f.Client.List(t.Context(), machines))
	for _, m := range machines.Items {
		if _, ok := m.Annotations["controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration"]; ok {
			t.Errorf("Machine %s still has the annotation of upstream: %v", m.Name, m.ManagedFields)
		}
	}
}
