// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
)

// server is an API server in memory that records the objects that it receives, with their
// owners and their label.
type server struct {
	client.WithWatch
	asked, sent []string
	refuse      func(client.Object) error
}

func newServer(t *testing.T) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &server{refuse: func(client.Object) error { return nil }}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if (&client.CreateOptions{}).ApplyOptions(opts).DryRun != nil {
				s.asked = append(s.asked, obj.GetName())
				return s.refuse(obj)
			}
			s.sent = append(s.sent, describe(obj))
			if err := s.refuse(obj); err != nil {
				return err
			}
			obj.SetUID(types.UID("uid of " + obj.GetName()))
			if class, ok := obj.(*unstructured.Unstructured); ok && class.GetKind() == clusterv1.ClusterClassKind {
				class.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": clusterv1.ClusterClassVariablesReadyCondition, "status": "True"}}}
			}
			return c.Create(ctx, obj, opts...)
		},
	}).Build()
	return s
}

// describe returns the owner and label of a creation as text.
func describe(obj client.Object) string {
	text := obj.GetObjectKind().GroupVersionKind().Kind + " " + obj.GetName()
	for _, o := range obj.GetOwnerReferences() {
		verb := "owned"
		if o.Controller != nil && *o.Controller && o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion {
			verb = "controlled"
		}
		text += fmt.Sprintf(", %s by %s %s (%s)", verb, o.Kind, o.Name, o.UID)
	}
	if label := obj.GetLabels()[clusterv1.ClusterNameLabel]; label != "" {
		text += ", of " + label
	}
	return text
}

func generate(t *testing.T, from []byte) []byte {
	t.Helper()
	doc, err := Generate(GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3", WorkerMachines: new(int32(1)), Template: from})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// doc writes objects, one a line: apiVersion, kind and name, and the rest as YAML
// in braces.
func doc(lines ...string) []byte {
	var b strings.Builder
	for _, line := range lines {
		f := strings.SplitN(line, " ", 4)
		rest := "{}"
		if len(f) == 4 {
			rest = f[3]
		}
		meta := "metadata: {namespace: default, name: " + f[2] + "}"
		if strings.HasPrefix(rest, "metadata") {
			meta, rest = rest, "{}"
		}
		fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\n%s\nspec: %s\n---\n", f[0], f[1], meta, rest)
	}
	return []byte(b.String())
}

const (
	core  = "cluster.x-k8s.io/v1beta2"
	infra = "infrastructure.cluster.x-k8s.io/v1beta1"
)

func ref(field, kind, name string) string {
	group := "infrastructure.cluster.x-k8s.io"
	switch {
	case strings.HasPrefix(kind, "KubeadmConfig"):
		group = "bootstrap.cluster.x-k8s.io"
	case strings.HasSuffix(kind, "ControlPlane"):
		group = "controlplane.cluster.x-k8s.io"
	}
	return fmt.Sprintf("%s: {apiGroup: %s, kind: %s, name: %s}", field, group, kind, name)
}

func TestClustersOwnWhatTheyReachFromItsCreation(t *testing.T) {
	t.Parallel()
	workers := func(cluster string) string {
		return fmt.Sprintf("{clusterName: %s, template: {spec: {%s, bootstrap: {%s}}}}", cluster, ref("infrastructureRef", "HostTemplate", "hosts"), ref("configRef", "KubeadmConfigTemplate", "join"))
	}
	tests := map[string]struct {
		doc  []byte
		want []string
	}{
		"the usual template": {generate(t, nil), []string{
			"Cluster demo",
			"LocalMachineTemplate demo-control-plane, owned by Cluster demo (uid of demo), of demo",
			"LocalMachineTemplate demo-workers, owned by Cluster demo (uid of demo), of demo",
			"KubeadmConfigTemplate demo-workers, owned by Cluster demo (uid of demo), of demo",
			"LocalCluster demo, owned by Cluster demo (uid of demo), of demo",
			"KubeadmControlPlane demo-control-plane, owned by Cluster demo (uid of demo), of demo",
			"MachineDeployment demo-workers, owned by Cluster demo (uid of demo), of demo",
		}},
		"a pool owns its parts itself, and comes before them": {generate(t, template.LocalMachinePool()), []string{
			"Cluster demo",
			"LocalMachineTemplate demo-control-plane, owned by Cluster demo (uid of demo), of demo",
			"LocalCluster demo, owned by Cluster demo (uid of demo), of demo",
			"KubeadmControlPlane demo-control-plane, owned by Cluster demo (uid of demo), of demo",
			"MachinePool demo-pool, owned by Cluster demo (uid of demo), of demo",
			"LocalMachinePool demo-pool, of demo",
			"KubeadmConfig demo-pool, of demo",
		}},
		"other providers, of an older contract and without labels": {doc(
			infra+" HostTemplate hosts", "bootstrap.cluster.x-k8s.io/v1beta1 KubeadmConfigTemplate join",
			"controlplane.cluster.x-k8s.io/v1beta1 OtherControlPlane cp {machineTemplate: {spec: {"+ref("infrastructureRef", "HostTemplate", "masters")+"}}}",
			infra+" HostTemplate masters", infra+" HostCluster c",
			core+" MachineSet w "+workers("c"), core+" MachineHealthCheck mhc {clusterName: c}",
			core+" Machine m {clusterName: c, "+ref("infrastructureRef", "Host", "m")+", bootstrap: {"+ref("configRef", "KubeadmConfig", "m")+"}}",
			infra+" Host m", "bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfig m",
			core+" Cluster c {"+ref("infrastructureRef", "HostCluster", "c")+", "+ref("controlPlaneRef", "OtherControlPlane", "cp")+"}",
		), []string{
			"HostTemplate masters", // its control plane sets the owner
			"Cluster c",
			"HostTemplate hosts, owned by Cluster c (uid of c), of c",
			"KubeadmConfigTemplate join, owned by Cluster c (uid of c), of c",
			"OtherControlPlane cp, owned by Cluster c (uid of c), of c",
			"HostCluster c, owned by Cluster c (uid of c), of c",
			"MachineSet w, owned by Cluster c (uid of c), of c",
			"MachineHealthCheck mhc, owned by Cluster c (uid of c), of c",
			"Machine m, owned by Cluster c (uid of c), of c",
			"Host m", "KubeadmConfig m", // the Machine's
		}},
		"an object of two Clusters has no owner yet": {doc(
			infra+" HostTemplate hosts", infra+" HostCluster shared", "bootstrap.cluster.x-k8s.io/v1beta1 KubeadmConfigTemplate join",
			core+" MachineDeployment wa "+workers("a"), core+" MachineDeployment wb "+workers("b"),
			core+" Cluster a {"+ref("infrastructureRef", "HostCluster", "shared")+"}",
			core+" Cluster b {"+ref("infrastructureRef", "HostCluster", "shared")+"}",
		), []string{
			"Cluster a", "Cluster b", "HostTemplate hosts", "KubeadmConfigTemplate join", "HostCluster shared",
			"MachineDeployment wa, owned by Cluster a (uid of a), of a", "MachineDeployment wb, owned by Cluster b (uid of b), of b",
		}},
		"so is what is elsewhere, or has an owner or another's label": {doc(
			infra+" HostCluster c metadata: {namespace: elsewhere, name: c}",
			infra+" HostTemplate hosts metadata: {namespace: default, name: hosts, labels: {cluster.x-k8s.io/cluster-name: other}}",
			"bootstrap.cluster.x-k8s.io/v1beta1 KubeadmConfigTemplate join metadata: {namespace: default, name: join, ownerReferences: [{apiVersion: x.io/v1, kind: Tool, name: t, uid: t}]}",
			core+" Cluster c {"+ref("infrastructureRef", "HostCluster", "c")+"}",
			core+" MachineDeployment lost "+workers("missing"), core+" MachineDeployment w "+workers("c"),
		), []string{
			"HostCluster c", "MachineDeployment lost", "Cluster c", "HostTemplate hosts, of other",
			"KubeadmConfigTemplate join, owned by Tool t (t)", "MachineDeployment w, owned by Cluster c (uid of c), of c",
		}},
		"a topology finds its class, which is not its own": {doc(
			core+" Cluster c {topology: {classRef: {name: class}, version: v1.36.3}}",
			core+" ClusterClass class", infra+" HostClusterTemplate class", "v1 ConfigMap note",
		), []string{"ClusterClass class", "HostClusterTemplate class", "ConfigMap note", "Cluster c"}},
		"a Namespace comes first": {doc(
			infra+" HostCluster c", core+" Cluster c {"+ref("infrastructureRef", "HostCluster", "c")+"}",
			"v1 Namespace default metadata: {name: default}",
		), []string{"Namespace default", "Cluster c", "HostCluster c, owned by Cluster c (uid of c), of c"}},
		"infrastructure that is the control plane too is owned once": {doc(
			core+" Cluster c {"+ref("infrastructureRef", "ManagedControlPlane", "c")+", "+ref("controlPlaneRef", "ManagedControlPlane", "c")+"}",
			"controlplane.cluster.x-k8s.io/v1beta1 ManagedControlPlane c",
		), []string{"Cluster c", "ManagedControlPlane c, owned by Cluster c (uid of c), of c"}},
		"what cannot be read is the API server's to refuse": {doc(
			"controlplane.cluster.x-k8s.io/v1beta2 KubeadmControlPlane cp {machineTemplate: nonsense}", core+" Cluster c {"+ref("controlPlaneRef", "KubeadmControlPlane", "cp")+"}",
		), []string{"Cluster c", "KubeadmControlPlane cp, owned by Cluster c (uid of c), of c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			if err := (&Client{mgmt: s}).Create(t.Context(), tc.doc, func(Event) {}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, s.sent); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsThereIsGoneOnWith(t *testing.T) {
	t.Parallel()
	s, usual := newServer(t), generate(t, nil)
	failing := errors.New("the connection was lost")
	s.refuse = func(obj client.Object) error {
		if obj.GetUID() == "" && len(s.sent) == 4 {
			return failing
		}
		return nil
	}
	c := &Client{mgmt: s}
	err := c.Create(t.Context(), usual, func(Event) {})
	if !errors.Is(err, failing) || !strings.Contains(err.Error(), "made so far: 3 of 7 objects; run the same command to continue") {
		t.Fatalf("error %v", err)
	}
	s.sent, s.refuse = nil, func(client.Object) error { return nil }
	var told []string
	if err := c.Create(t.Context(), usual, func(e Event) { told = append(told, e.Text) }); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Cluster default/demo is there already",
		"LocalMachineTemplate default/demo-control-plane is there already",
		"LocalMachineTemplate default/demo-workers is there already",
		"Created KubeadmConfigTemplate default/demo-workers",
		"Created LocalCluster default/demo",
		"Created KubeadmControlPlane default/demo-control-plane",
		"Created MachineDeployment default/demo-workers",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if last := s.sent[len(s.sent)-1]; last != "MachineDeployment demo-workers, owned by Cluster demo (uid of demo), of demo" {
		t.Errorf("created at last: %s", last)
	}
}

// TestTakenAdviceIsOfTheKind: an object of a class, for one, has the same name for all
// clusters of a namespace, and is nothing that describes a cluster.
func TestTakenAdviceIsOfTheKind(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string][]string{
		"Cluster":              {"another name", "`capstan describe cluster`"},
		"ClusterClass":         {"another name for the cluster", "another namespace with -n", "`capstan generate cluster` with kubectl"},
		"LocalMachineTemplate": {"another name for the cluster", "another namespace with -n", "`capstan generate cluster` with kubectl"},
	} {
		for _, part := range want {
			if got := takenAdvice(kind); !strings.Contains(got, part) || strings.Contains(got, "describe") != (kind == "Cluster") {
				t.Errorf("%s: %s, want %q in it", kind, got, part)
			}
		}
	}
}

// TestWhatIsWrittenBetweenTwoLooksIsNoDifference has a controller write to each existing
// object, just after it has been read, as often as a slow caller would experience.
func TestWhatIsWrittenBetweenTwoLooksIsNoDifference(t *testing.T) {
	t.Parallel()
	s, usual := newServer(t), generate(t, nil)
	if err := (&Client{mgmt: s}).Create(t.Context(), usual, func(Event) {}); err != nil {
		t.Fatal(err)
	}
	const times = 20
	written := map[string]int{}
	busy := interceptor.NewClient(s, interceptor.Funcs{
		// Patch answers as an API server does.
		Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, p client.Patch, _ ...client.PatchOption) error {
			body, err := p.Data(obj)
			if err != nil {
				return err
			}
			if what := describe(obj); written[what] < times {
				written[what]++
				if strings.Contains(string(body), `"resourceVersion":"`+obj.GetResourceVersion()+`"`) {
					return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("another client was faster"))
				}
				obj.SetFinalizers([]string{"example.com/busy"})
			}
			return nil
		},
	})
	if err := (&Client{mgmt: busy}).Create(t.Context(), usual, func(Event) {}); err != nil || len(written) != 7 {
		t.Errorf("error %v, %d of 7 objects written meanwhile", err, len(written))
	}
}

// TestAConflictThatStaysIsReported: a webhook can answer so.
func TestAConflictThatStaysIsReported(t *testing.T) {
	t.Parallel()
	s, usual := newServer(t), generate(t, nil)
	if err := (&Client{mgmt: s}).Create(t.Context(), usual, func(Event) {}); err != nil {
		t.Fatal(err)
	}
	refused := interceptor.NewClient(s, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
		return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("the quota is used"))
	}})
	if err := (&Client{mgmt: refused}).Create(t.Context(), usual, func(Event) {}); err == nil || !strings.Contains(err.Error(), "the quota is used") {
		t.Errorf("error %v", err)
	}
}

func TestAMistakeLeavesNothing(t *testing.T) {
	t.Parallel()
	absent := func(client.Object) error { return apierrors.NewNotFound(corev1.Resource("namespaces"), "default") }
	wrong := func(obj client.Object) error {
		if obj.GetName() == "c" {
			return errors.New("no such colour")
		}
		return nil
	}
	cluster := []string{infra + " HostCluster c", core + " Cluster demo {" + ref("infrastructureRef", "HostCluster", "c") + "}"}
	tests := map[string]struct {
		refuse  func(client.Object) error
		lines   []string
		want    string
		created []string
	}{
		"in an object":                {wrong, cluster, "create HostCluster default/c: no such colour", nil},
		"a Namespace that is missing": {absent, cluster, "namespace default does not exist: create it first (kubectl create namespace default)", nil},
		"but a Namespace that was to come": {
			wrong, append(cluster, "v1 Namespace default metadata: {name: default}"),
			"create HostCluster default/c: no such colour\nmade so far: 1 of 3 objects; run the same command to continue, and `capstan delete cluster` removes what is the cluster's",
			[]string{"Namespace default"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.refuse = tc.refuse
			err := (&Client{mgmt: s}).Create(t.Context(), doc(tc.lines...), func(Event) {})
			if err == nil || err.Error() != tc.want {
				t.Errorf("error %v, want %s", err, tc.want)
			}
			if diff := cmp.Diff(tc.created, s.sent); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoMayNotNameAnOwnerCreatesWithout(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.refuse = func(obj client.Object) error {
		if len(obj.GetOwnerReferences()) > 0 {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "hostclusters"}, "c", errors.New("cannot set an ownerRef on a resource you can't delete"))
		}
		return nil
	}
	err := (&Client{mgmt: s}).Create(t.Context(), doc(infra+" HostCluster c", core+" Cluster demo {"+ref("infrastructureRef", "HostCluster", "c")+"}"), func(Event) {})
	if err != nil || s.sent[len(s.sent)-1] != "HostCluster c" {
		t.Errorf("error %v, created %q", err, s.sent)
	}
}
