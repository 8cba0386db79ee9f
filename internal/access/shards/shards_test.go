// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

// fleet has Cluster c, which uses a class of another namespace, and machines of
// another provider; Cluster other, which uses none of that; and what belongs to none.
// Names that end in -c are those of the shard of c.
const fleet = `
kind: Namespace, name: ns
kind: Namespace, name: classes
kind: Cluster, namespace: ns, name: of-c, spec: {topology: {classRef: {name: class-c, namespace: classes}, version: v1.36.0}, infrastructureRef: {apiGroup: infra.example, kind: WidgetCluster, name: widgets-c}, controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: kcp-c}}
kind: Cluster, namespace: ns, name: other, spec: {infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalCluster, name: other}}
kind: Cluster, namespace: elsewhere, name: of-c
kind: ClusterClass, namespace: classes, name: class-c, spec: {infrastructure: {templateRef: {apiVersion: infra.example/v1, kind: WidgetClusterTemplate, name: template-c}}, controlPlane: {templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: kcp-c}, machineInfrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: class-c}}}}
kind: ClusterClass, namespace: ns, name: class-c
kind: KubeadmControlPlaneTemplate, namespace: classes, name: kcp-c
kind: LocalMachineTemplate, namespace: classes, name: class-c
kind: LocalMachineTemplate, namespace: ns, name: class-c
kind: WidgetClusterTemplate, namespace: classes, name: template-c
kind: WidgetClusterTemplate, namespace: classes, name: unused
kind: WidgetCluster, namespace: ns, name: widgets-c, spec: {}
kind: KubeadmControlPlane, namespace: ns, name: kcp-c, of: of-c, spec: {machineTemplate: {spec: {infrastructureRef: {apiGroup: infra.example, kind: WidgetMachineTemplate, name: shared-c}}}}
kind: WidgetMachineTemplate, namespace: ns, name: shared-c
kind: WidgetMachineTemplate, namespace: ns, name: former-c, of: of-c
kind: WidgetMachineTemplate, namespace: ns, name: unused, of: other
kind: Machine, namespace: ns, name: first-c, of: of-c, spec: {clusterName: of-c, infrastructureRef: {apiGroup: infra.example, kind: WidgetMachine, name: first-c}, bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: first-c}}}
kind: Machine, namespace: ns, name: second-c, of: of-c, spec: {clusterName: of-c, infrastructureRef: {apiGroup: none.example, kind: NotInstalled, name: x}}
kind: Machine, namespace: ns, name: third-c, of: of-c, spec: {clusterName: of-c, infrastructureRef: {apiGroup: plain.example, kind: Plain, name: of-no-provider}}
kind: Machine, namespace: ns, name: other, of: other, spec: {clusterName: other}
kind: Machine, namespace: elsewhere, name: of-another-namespace, of: of-c, spec: {clusterName: of-c}
kind: WidgetMachine, namespace: ns, name: first-c, of: of-c
kind: WidgetMachine, namespace: ns, name: orphan-c, of: of-c
kind: WidgetMachine, namespace: ns, name: other, of: other
kind: Plain, namespace: ns, name: of-no-provider, of: of-c
kind: KubeadmConfig, namespace: ns, name: first-c, of: of-c
kind: MachineDeployment, namespace: ns, name: md-c, of: of-c, spec: {clusterName: of-c, template: {spec: {bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: workers-c}}, infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachineTemplate, name: workers-c}}}}
kind: MachineDeployment, namespace: ns, name: other, of: other, spec: {clusterName: other, template: {spec: {infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachineTemplate, name: others}}}}
kind: KubeadmConfigTemplate, namespace: ns, name: workers-c
kind: LocalMachineTemplate, namespace: ns, name: workers-c
kind: LocalMachineTemplate, namespace: ns, name: others
kind: MachineSet, namespace: ns, name: set-c, of: of-c, spec: {clusterName: of-c}
kind: MachineHealthCheck, namespace: ns, name: check-c, of: of-c, spec: {clusterName: of-c, remediation: {templateRef: {apiVersion: infra.example/v1, kind: WidgetRemediationTemplate, name: repair-c}}}
kind: WidgetRemediationTemplate, namespace: ns, name: repair-c
kind: Secret, namespace: ns, name: of-c-kubeconfig
kind: Secret, namespace: ns, name: of-c-ca
kind: Secret, namespace: ns, name: bootstrap-c, of: of-c
kind: Secret, namespace: ns, name: password
kind: Secret, namespace: ns, name: addon-c
kind: ClusterResourceSet, namespace: ns, name: selects-c, spec: {clusterSelector: {matchExpressions: [{key: net, operator: DoesNotExist}]}, resources: [{kind: Secret, name: addon-c}, {kind: ConfigMap, name: addon-c}, {kind: ConfigMap, name: missing}]}
kind: ClusterResourceSet, namespace: ns, name: may-select-c, spec: {clusterSelector: {matchLabels: {net: a}}, resources: [{kind: ConfigMap, name: config}]}
kind: ClusterResourceSet, namespace: elsewhere, name: selects-c, spec: {clusterSelector: {matchExpressions: [{key: net, operator: DoesNotExist}]}, resources: [{kind: ConfigMap, name: config}]}
kind: ClusterResourceSetBinding, namespace: ns, name: of-c, spec: {clusterName: of-c}
kind: ClusterResourceSetBinding, namespace: ns, name: other, spec: {clusterName: other}
kind: ConfigMap, namespace: ns, name: addon-c
kind: Secret, namespace: ns, name: other-kubeconfig, of: other
kind: ConfigMap, namespace: ns, name: config
kind: ExtensionConfig, name: discovered-c, status: {handlers: [{name: a.b}]}
kind: ExtensionConfig, name: never-discovered
`

// groups are those of kinds that the scheme does not have.
var groups = map[string]string{"Widget": "infra.example/v1", "Plain": "plain.example/v1"}

// parse reads objects, one per line; of is the label of a Cluster.
func parse(t *testing.T, scheme *runtime.Scheme, text string) (all []client.Object) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(text)) {
		var of map[string]any
		if err := yaml.Unmarshal([]byte("{"+line+"}"), &of); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		u := &unstructured.Unstructured{Object: map[string]any{"spec": of["spec"], "status": of["status"]}}
		u.SetKind(of["kind"].(string))
		u.SetName(of["name"].(string))
		namespace, _ := of["namespace"].(string)
		u.SetNamespace(namespace)
		if name, is := of["of"].(string); is {
			u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: name})
		}
		for prefix, version := range groups {
			if strings.HasPrefix(u.GetKind(), prefix) {
				u.SetAPIVersion(version)
				all = append(all, u)
			}
		}
		if u.GetAPIVersion() != "" {
			continue
		}
		all = append(all, typed(t, scheme, u))
	}
	return all
}

func typed(t *testing.T, scheme *runtime.Scheme, u *unstructured.Unstructured) client.Object {
	t.Helper()
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Kind != u.GetKind() || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		obj, err := scheme.New(gvk)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj)
		}
		if err != nil {
			t.Fatal(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return obj.(client.Object)
	}
	t.Fatalf("unknown kind %s", u.GetKind())
	return nil
}

// definitions are those of the foreign kinds of fleet. Widgets have two versions; the
// contract selects v1, and v2 is stored.
func definitions() (all []client.Object) {
	for _, kind := range []string{"WidgetCluster", "WidgetClusterTemplate", "WidgetMachine", "WidgetMachineTemplate", "WidgetRemediationTemplate", "Plain"} {
		group, labels := "infra.example", map[string]string{"cluster.x-k8s.io/v1beta1": "v1alpha1_v1"}
		if kind == "Plain" {
			group, labels = "plain.example", nil
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Name, crd.Labels = strings.ToLower(kind)+"s."+group, labels
		crd.Spec.Group, crd.Spec.Names.Kind = group, kind
		for _, version := range []string{"v1alpha1", "v1", "v2"} {
			crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: true, Storage: version == "v2"})
		}
		all = append(all, crd)
	}
	return all
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, apiextensionsv1.AddToScheme, addonsv1.AddToScheme, clusterv1.AddToScheme, bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme, infrav1.AddToScheme, planv1.AddToScheme, runtimev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// server is a management cluster. The fake adds foreign kinds to its own scheme, but a
// real client does not.
type server struct {
	client.Client
	scheme *runtime.Scheme
}

func (s server) Scheme() *runtime.Scheme { return s.scheme }

func serve(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) Reader {
	t.Helper()
	scheme := newScheme(t)
	c := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(definitions()...).WithObjects(parse(t, scheme, fleet)...).WithObjects(objects...)
	return Reader{Mgmt: server{c.WithInterceptorFuncs(funcs).Build(), scheme}}
}

var ofC = client.ObjectKey{Namespace: "ns", Name: "of-c"}

// names lists objects as "Kind namespace/name", in order.
func names(t *testing.T, r Reader, objects []client.Object) (all []string) {
	t.Helper()
	for _, obj := range objects {
		gvk, err := apiutil.GVKForObject(obj, r.Mgmt.Scheme())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s/%s", gvk.Kind, obj.GetNamespace(), obj.GetName()))
	}
	slices.Sort(all)
	return all
}

func TestReadCollectsAShard(t *testing.T) {
	t.Parallel()
	r := serve(t, interceptor.Funcs{})
	s, err := r.Read(t.Context(), ofC, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Cluster ns/of-c", "ClusterClass classes/class-c", "ClusterResourceSet ns/may-select-c", "ClusterResourceSet ns/selects-c", "ClusterResourceSetBinding ns/of-c", "ConfigMap ns/addon-c", "ExtensionConfig /discovered-c", "KubeadmConfig ns/first-c",
		"KubeadmConfigTemplate ns/workers-c", "KubeadmControlPlane ns/kcp-c", "KubeadmControlPlaneTemplate classes/kcp-c",
		"LocalMachineTemplate classes/class-c", "LocalMachineTemplate ns/workers-c",
		"Machine ns/first-c", "Machine ns/second-c", "Machine ns/third-c", "MachineDeployment ns/md-c", "MachineHealthCheck ns/check-c", "MachineSet ns/set-c",
		"Namespace /ns", "Secret ns/addon-c", "Secret ns/bootstrap-c", "Secret ns/of-c-ca", "Secret ns/of-c-kubeconfig",
		"WidgetCluster ns/widgets-c", "WidgetClusterTemplate classes/template-c", "WidgetMachine ns/first-c", "WidgetMachine ns/orphan-c",
		"WidgetMachineTemplate ns/former-c", "WidgetMachineTemplate ns/shared-c", "WidgetRemediationTemplate ns/repair-c",
	}
	if diff := cmp.Diff(want, names(t, r, s.Objects)); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
	if s.Kubeconfig() == nil || s.Kubeconfig().Name != "of-c-kubeconfig" {
		t.Errorf("kubeconfig: %v", s.Kubeconfig())
	}
	var kinds []string
	for _, crd := range s.Definitions {
		kinds = append(kinds, crd.Spec.Names.Kind)
		for _, v := range crd.Spec.Versions {
			if v.Storage != (v.Name == "v1") {
				t.Errorf("%s: version %s is stored: %t", crd.Name, v.Name, v.Storage)
			}
		}
	}
	slices.Sort(kinds)
	if diff := cmp.Diff([]string{"WidgetCluster", "WidgetClusterTemplate", "WidgetMachine", "WidgetMachineTemplate", "WidgetRemediationTemplate"}, kinds); diff != "" {
		t.Errorf("definitions (-want +got)\n%s", diff)
	}
}

// TestReadFollowsObjectsOfTheChange reads what an object refers to that the change
// writes, but not the object itself.
func TestReadFollowsObjectsOfTheChange(t *testing.T) {
	t.Parallel()
	r := serve(t, interceptor.Funcs{})
	before, err := r.Read(t.Context(), ofC, nil)
	if err != nil {
		t.Fatal(err)
	}
	with := parse(t, r.Mgmt.Scheme(), `
kind: MachineDeployment, namespace: ns, name: new, of: of-c, spec: {template: {spec: {infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachineTemplate, name: others}}}}
kind: ClusterResourceSet, namespace: ns, name: new, spec: {clusterSelector: {matchExpressions: [{key: net, operator: DoesNotExist}]}, resources: [{kind: Secret, name: password}]}
kind: ClusterResourceSet, namespace: ns, name: unused, spec: {clusterSelector: {matchLabels: {net: b}}, resources: [{kind: ConfigMap, name: unused}]}
kind: Cluster, namespace: ns, name: of-c
`)
	with[len(with)-1].SetLabels(map[string]string{"net": "a"})
	after, err := r.Read(t.Context(), ofC, with)
	if err != nil {
		t.Fatal(err)
	}
	want := append(names(t, r, before.Objects), "LocalMachineTemplate ns/others", "Secret ns/password", "ConfigMap ns/config")
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, r, after.Objects)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadOfAClusterThatDoesNotExist(t *testing.T) {
	t.Parallel()
	r := serve(t, interceptor.Funcs{})
	s, err := r.Read(t.Context(), client.ObjectKey{Namespace: "ns", Name: "new"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Kubeconfig() != nil {
		t.Error("the Cluster has a kubeconfig")
	}
	if diff := cmp.Diff([]string{"ClusterResourceSet ns/may-select-c", "ClusterResourceSet ns/selects-c", "ExtensionConfig /discovered-c", "Namespace /ns"}, names(t, r, s.Objects)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestReadOfAllPages has a server that returns two objects per page. Like the decoder of
// JSON, it writes into the memory of the items that the list has.
func TestReadOfAllPages(t *testing.T) {
	t.Parallel()
	var more []client.Object
	for i := range 7 {
		more = append(more, parse(t, newScheme(t), fmt.Sprintf("kind: MachineSet, namespace: ns, name: m%d, of: of-c, spec: {clusterName: of-c}", i))...)
	}
	limits := map[int64]bool{}
	r := serve(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		o := (&client.ListOptions{}).ApplyOptions(opts)
		limits[o.Limit] = true
		var reused []clusterv1.MachineSet
		if sets, is := list.(*clusterv1.MachineSetList); is {
			reused = sets.Items[:0]
		}
		if err := c.List(ctx, list, opts...); err != nil {
			return err
		}
		sets, is := list.(*clusterv1.MachineSetList)
		if !is {
			return nil
		}
		from, _ := strconv.Atoi(o.Continue)
		to := min(from+2, len(sets.Items))
		if to < len(sets.Items) {
			sets.Continue = strconv.Itoa(to)
		}
		sets.Items = append(reused, sets.Items[from:to]...)
		return nil
	}}, more...)
	s, err := r.Read(t.Context(), ofC, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range names(t, r, s.Objects) {
		if strings.HasPrefix(name, "MachineSet ") {
			got = append(got, name)
		}
	}
	if want := []string{"MachineSet ns/m0", "MachineSet ns/m1", "MachineSet ns/m2", "MachineSet ns/m3", "MachineSet ns/m4", "MachineSet ns/m5", "MachineSet ns/m6", "MachineSet ns/set-c"}; !slices.Equal(want, got) {
		t.Errorf("got %v", got)
	}
	if !limits[PageSize] {
		t.Errorf("limits %v, want %d", limits, PageSize)
	}
}

// TestReadWithoutKindsThatAreNotServed has a management cluster without MachinePools
// and extensions, as one of upstream without their feature gates.
func TestReadWithoutKindsThatAreNotServed(t *testing.T) {
	t.Parallel()
	r := serve(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		switch list.(type) {
		case *clusterv1.MachinePoolList, *runtimev1.ExtensionConfigList, *controlplanev1.KubeadmControlPlaneList:
			return &meta.NoKindMatchError{}
		}
		return c.List(ctx, list, opts...)
	}})
	s, err := r.Read(t.Context(), ofC, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := names(t, r, s.Objects)
	if slices.Contains(got, "ExtensionConfig /discovered-c") || !slices.Contains(got, "MachineDeployment ns/md-c") {
		t.Errorf("got %v", got)
	}
	if keys, err := NewFinder(r.Mgmt).Reached(t.Context(), parse(t, r.Mgmt.Scheme(), "kind: LocalMachineTemplate, namespace: ns, name: workers-c")[0]); err != nil || !slices.Equal(keys, []client.ObjectKey{ofC}) {
		t.Errorf("reached: %v, error %v", keys, err)
	}
}

func TestReadReportsWhatItCouldNotRead(t *testing.T) {
	t.Parallel()
	refused := errors.New("no permission to list Machines")
	r := serve(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, is := list.(*clusterv1.MachineList); is {
			return refused
		}
		return c.List(ctx, list, opts...)
	}})
	if s, err := r.Read(t.Context(), ofC, nil); s != nil || !errors.Is(err, refused) || !strings.Contains(err.Error(), "Cluster ns/of-c") {
		t.Errorf("shard %v, error %v", s, err)
	}
}

func TestReachedByAChangedObject(t *testing.T) {
	t.Parallel()
	r := serve(t, interceptor.Funcs{}, parse(t, newScheme(t), `
kind: Cluster, namespace: ns, name: second, spec: {topology: {classRef: {name: class-c, namespace: classes}, version: v1.36.0}}
kind: Cluster, namespace: classes, name: third, spec: {topology: {classRef: {name: class-c}, version: v1.36.0}}
kind: MachineDeployment, namespace: ns, name: also, of: second, spec: {clusterName: second, template: {spec: {infrastructureRef: {apiGroup: infra.example, kind: WidgetMachineTemplate, name: shared-c}}}}
`)...)
	f, class := NewFinder(r.Mgmt), []string{"classes/third", "ns/of-c", "ns/second"}
	for line, want := range map[string][]string{
		"kind: Cluster, namespace: ns, name: of-c":                                                                                              {"ns/of-c"},
		"kind: Cluster, namespace: ns, name: new":                                                                                               {"ns/new"},
		"kind: MachineDeployment, namespace: ns, name: new, spec: {clusterName: of-c}":                                                          {"ns/of-c"},
		"kind: MachineHealthCheck, namespace: ns, name: new, spec: {clusterName: of-c}":                                                         {"ns/of-c"},
		"kind: KubeadmControlPlane, namespace: ns, name: kcp-c, of: of-c":                                                                       {"ns/of-c"},
		"kind: Secret, namespace: ns, name: bootstrap-c, of: of-c":                                                                              {"ns/of-c"},
		"kind: WidgetCluster, namespace: ns, name: widgets-c":                                                                                   {"ns/of-c"},
		"kind: WidgetMachineTemplate, namespace: ns, name: shared-c":                                                                            {"ns/of-c", "ns/second"},
		"kind: WidgetMachineTemplate, namespace: elsewhere, name: shared-c":                                                                     nil,
		"kind: LocalMachineTemplate, namespace: ns, name: workers-c":                                                                            {"ns/of-c"},
		"kind: LocalMachineTemplate, namespace: ns, name: unused":                                                                               nil,
		"kind: KubeadmConfigTemplate, namespace: ns, name: workers-c":                                                                           {"ns/of-c"},
		"kind: ClusterClass, namespace: classes, name: class-c":                                                                                 class,
		"kind: ClusterClass, namespace: ns, name: class-c":                                                                                      nil,
		"kind: KubeadmControlPlaneTemplate, namespace: classes, name: kcp-c":                                                                    class,
		"kind: LocalMachineTemplate, namespace: classes, name: class-c":                                                                         class,
		"kind: LocalMachineTemplate, namespace: ns, name: class-c":                                                                              nil,
		"kind: WidgetClusterTemplate, namespace: classes, name: template-c":                                                                     class,
		"kind: ConfigMap, namespace: ns, name: config":                                                                                          nil,
		"kind: ConfigMap, namespace: ns, name: addon-c":                                                                                         {"ns/of-c", "ns/other", "ns/second"},
		"kind: Secret, namespace: elsewhere, name: addon-c":                                                                                     nil,
		"kind: ClusterResourceSetBinding, namespace: ns, name: of-c, spec: {clusterName: of-c}":                                                 {"ns/of-c"},
		"kind: ClusterResourceSet, namespace: ns, name: new, spec: {clusterSelector: {matchExpressions: [{key: net, operator: DoesNotExist}]}}": {"ns/of-c", "ns/other", "ns/second"},
		"kind: ClusterResourceSet, namespace: ns, name: new, spec: {clusterSelector: {matchLabels: {net: a}}}":                                  nil,
		"kind: Secret, namespace: ns, name: password":                                                                                           nil,
		"kind: Namespace, name: new":                                                                                                            nil,
		"kind: ExtensionConfig, name: discovered-c":                                                                                             nil,
	} {
		keys, err := f.Reached(t.Context(), parse(t, r.Mgmt.Scheme(), line)[0])
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		var got []string
		for _, key := range keys {
			got = append(got, key.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", line, diff)
		}
	}
}

func TestReachedByAnOwnedObject(t *testing.T) {
	t.Parallel()
	r := serve(t, interceptor.Funcs{})
	for apiVersion, want := range map[string]int{"cluster.x-k8s.io/v1beta1": 1, "cluster.x-k8s.io/v1beta2": 1, "example.com/v1": 0} {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "infra.example/v1", "kind": "WidgetCluster",
			"metadata": map[string]any{"namespace": "ns", "name": "owned", "ownerReferences": []any{map[string]any{"apiVersion": apiVersion, "kind": "Cluster", "name": "of-c", "uid": "u"}}},
		}}
		if keys, err := NewFinder(r.Mgmt).Reached(t.Context(), obj); err != nil || len(keys) != want {
			t.Errorf("owned by a Cluster of %s: %v, error %v", apiVersion, keys, err)
		}
	}
}
