// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/app/changeplan/standin"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/sim"
	"github.com/capstan-dev/capstan/internal/simulated"
)

// classes is a class with the templates of its Clusters, and a Cluster of it.
const classes = `
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalClusterTemplate
metadata: {name: cluster}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: infrastructure.capstan.dev/v1beta2
kind: LocalMachineTemplate
metadata: {name: host}
spec: {template: {spec: {simulated: {}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: plane}
spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {encryptionAlgorithm: ECDSA-P256}}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: join}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {name: '{{ ds.meta_data.local_hostname }}'}}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: fleet}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: cluster}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: plane}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: host}}
  workers:
    machineDeployments:
    - {class: worker, bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: join}}, infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: host}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo}
spec:
  topology:
    classRef: {name: fleet}
    version: v1.35.0
    controlPlane: {replicas: 1}
    workers: {machineDeployments: [{class: worker, name: blue, replicas: 2}]}
`

// now is the time at which the management cluster was read.
var now = time.Date(2026, 8, 1, 13, 0, 0, 0, time.UTC)

// objects are those of a management cluster in steady state, with Cluster demo of a
// class and Cluster plain without, on simulated machines.
var objects = sync.OnceValues(func() ([]client.Object, error) {
	plain, err := clusterctl.Generate(clusterctl.GenerateOptions{
		Name: "plain", KubernetesVersion: "v1.35.0", ControlPlaneMachines: new(int32(1)), WorkerMachines: new(int32(1)), Template: template.Local(),
	})
	if err != nil {
		return nil, err
	}
	return steady([]byte(classes), plain)
})

// steady returns the objects of a management cluster in steady state after documents
// were created in it.
func steady(docs ...[]byte) ([]client.Object, error) {
	dir, err := os.MkdirTemp("", "changeplan")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	clock := sim.NewClock(now.Add(-time.Hour))
	backend, err := simulated.New(simulated.Options{Dir: dir, Clock: clock, Stepped: true, Unsynced: true, Random: func() float64 { return 0 }})
	if err != nil {
		return nil, err
	}
	defer func() { _ = backend.Close() }()
	admission := standin.Admission(nil, nil)
	w, err := sim.NewWorld(sim.Options{Clock: clock, Backends: localinfra.Backends{Simulated: backend}, Admit: admission})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	for _, doc := range docs {
		created, err := template.Objects(doc)
		for _, obj := range created {
			obj.SetNamespace("default")
			err = errors.Join(err, admission(nil, obj, 0), w.Mgmt.Create(ctx, obj))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.RunFor(ctx, now.Sub(clock.Now())); err != nil {
		return nil, err
	}
	return w.Objects(ctx)
}

// mgmt is a management cluster in memory in which no controller runs.
type mgmt struct {
	client.Client
	world *sim.World
}

// serve serves copies of objects, each after a change.
func serve(t *testing.T, changed ...func(client.Object)) mgmt {
	t.Helper()
	of, err := objects()
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for _, obj := range of {
		obj = obj.DeepCopyObject().(client.Object)
		for _, change := range changed {
			change(obj)
		}
		all = append(all, obj)
	}
	return served(t, all)
}

// served serves objects.
func served(t testing.TB, all []client.Object) mgmt {
	t.Helper()
	m := mgmt{world: world(t, all)}
	m.Client = interceptor.NewClient(m.world.Mgmt, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
		// Memory does no dry run, so the patch is sent to another memory.
		o := (&client.PatchOptions{}).ApplyOptions(opts)
		if len(o.DryRun) == 0 || o.FieldValidation != metav1.FieldValidationStrict { // which refuses unknown fields
			t.Errorf("%s %s is written", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName())
		}
		stored, err := m.world.Objects(ctx)
		if err != nil {
			return err
		}
		return world(t, stored).Mgmt.Patch(ctx, obj, p, &client.PatchOptions{FieldManager: o.FieldManager, Force: o.Force})
	}})
	return m
}

func world(t testing.TB, objects []client.Object) *sim.World {
	t.Helper()
	w, err := sim.NewWorld(sim.Options{Clock: sim.NewClock(now), Objects: objects, Runs: func(controllers.Controller) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// set is a change of one field, as the command makes it.
func set(kind, name string, value any, fields ...string) changeplan.Write {
	group := "cluster.x-k8s.io/v1beta2"
	if kind == "KubeadmControlPlane" {
		group = "controlplane." + group
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group, "kind": kind}}
	u.SetNamespace("default")
	u.SetName(name)
	if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
		panic(err)
	}
	return changeplan.Write{Object: u, Patch: types.MergePatchType}
}

// applied is an object that is applied, in YAML.
func applied(t testing.TB, doc string) changeplan.Write {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
		t.Fatal(err)
	}
	return changeplan.Write{Object: u, Patch: types.ApplyPatchType}
}

// upgrade raises the version of Cluster demo.
func upgrade() changeplan.Write {
	return set("Cluster", "demo", "v1.36.0", "spec", "topology", "version")
}

// shrink deletes the worker of Cluster plain.
func shrink() changeplan.Write {
	return set("MachineDeployment", "plain-workers", int64(0), "spec", "replicas")
}

func plan(t testing.TB, m mgmt, o changeplan.Options, change ...changeplan.Write) *planv1.Plan {
	t.Helper()
	o.Mgmt, o.Now, o.Program = m, now, "test"
	p, err := changeplan.Make(t.Context(), o, change)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func text(t testing.TB, p *planv1.Plan) string {
	t.Helper()
	out, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// discovered adds an extension of a URL with all lifecycle hooks of an upgrade.
func discovered(t *testing.T, m mgmt, url string, hooks ...string) {
	t.Helper()
	x := &runtimev1.ExtensionConfig{}
	x.Name, x.UID = "ext", "ext"
	x.Spec.ClientConfig.URL = url
	x.Spec.NamespaceSelector = nil
	for _, hook := range hooks {
		x.Status.Handlers = append(x.Status.Handlers, runtimev1.ExtensionHandler{
			Name: strings.ToLower(hook) + ".ext", RequestHook: runtimev1.GroupVersionHook{APIVersion: "hooks.runtime.cluster.x-k8s.io/v1alpha1", Hook: hook},
			TimeoutSeconds: 5, FailurePolicy: runtimev1.FailurePolicyFail,
		})
	}
	if err := m.world.Put(x); err != nil {
		t.Fatal(err)
	}
}

var lifecycle = []string{"BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade", "BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade"}

// counted is a listener that counts connections and closes each.
func counted(t *testing.T) (address *net.TCPAddr, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = &atomic.Int32{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().(*net.TCPAddr), connections
}

// TestPlanOpensNoConnection makes a plan with an upgrade, replacements and deletions
// in a management cluster in which all addresses are that of one listener: those of
// the kubeconfigs, of the infrastructure and of an extension.
func TestPlanOpensNoConnection(t *testing.T) {
	t.Parallel()
	to, connections := counted(t)
	endpoint := func(host *string, port *int32) { *host, *port = to.IP.String(), int32(to.Port) }
	var kubeconfig []byte
	m := serve(t, func(obj client.Object) {
		switch o := obj.(type) {
		case *clusterv1.Cluster:
			endpoint(&o.Spec.ControlPlaneEndpoint.Host, &o.Spec.ControlPlaneEndpoint.Port)
		case *infrav1.LocalCluster:
			endpoint(&o.Spec.ControlPlaneEndpoint.Host, &o.Spec.ControlPlaneEndpoint.Port)
		case *corev1.Secret:
			if strings.HasSuffix(o.Name, "-kubeconfig") {
				kubeconfig = address.ReplaceAll(o.Data["value"], []byte("server: https://"+to.String()+"\n"))
				o.Data["value"] = kubeconfig
			}
		}
	})
	discovered(t, m, "https://"+to.String(), lifecycle...)
	before := m.world.Requests()
	p := plan(t, m, changeplan.Options{}, upgrade(), shrink())
	if s := p.Summary; s.Replaced != 3 || s.Deleted != 1 || s.NotPredicted != 0 {
		t.Errorf("the plan is not one of an upgrade and a deletion:\n%s", text(t, p))
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if diff := cmp.Diff(before, m.world.Requests()); diff != "" {
		t.Errorf("the plan writes (-before +after)\n%s", diff)
	}
	// The listener counts, and is what the kubeconfigs name.
	if _, err := changeplan.ReadWorkload(t.Context(), kubeconfig); err == nil || connections.Load() == 0 {
		t.Errorf("a client of the kubeconfig: error %v, %d connections", err, connections.Load())
	}
}

// address is the server in a kubeconfig.
var address = regexp.MustCompile("server: .*\n")

// TestPlanWritesNothing compares all objects of the management cluster.
func TestPlanWritesNothing(t *testing.T) {
	t.Parallel()
	m := serve(t)
	versions := func() map[string]string {
		all := map[string]string{}
		stored, err := m.world.Objects(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range stored {
			all[fmt.Sprintf("%T %s", obj, client.ObjectKeyFromObject(obj))] = obj.GetResourceVersion()
		}
		return all
	}
	before := versions()
	plan(t, m, changeplan.Options{}, upgrade(), shrink(), applied(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: new}}"))
	if diff := cmp.Diff(before, versions()); diff != "" || len(before) == 0 {
		t.Errorf("(-before +after)\n%s", diff)
	}
}

// TestPlanOfAClusterThatChanges has a Cluster that changes without the change. The
// other one is predicted.
func TestPlanOfAClusterThatChanges(t *testing.T) {
	t.Parallel()
	m := serve(t, func(obj client.Object) {
		if d, is := obj.(*clusterv1.MachineDeployment); is && d.Name == "plain-workers" {
			d.Spec.Replicas = new(int32(2)) // which its controller has not seen
		}
	})
	p := plan(t, m, changeplan.Options{}, set("MachineDeployment", "plain-workers", "v1.35.1", "spec", "template", "spec", "version"), upgrade())
	if len(p.Clusters) != 2 {
		t.Fatalf("the plan:\n%s", text(t, p))
	}
	demo, plain := p.Clusters[0], p.Clusters[1]
	if demo.NotPredicted != nil || p.Summary.Replaced != 3 {
		t.Errorf("Cluster demo:\n%s", text(t, p))
	}
	why := plain.NotPredicted
	if why == nil || why.Reason != planv1.NotAtRest || p.Summary.NotPredicted != 2 || len(plain.Machines) != 2 || plain.Groups != nil {
		t.Fatalf("Cluster plain:\n%s", text(t, p))
	}
	for _, m := range plain.Machines {
		if m.Action != "" || m.UID == "" {
			t.Errorf("Machine %s has the action %q", m.Name, m.Action)
		}
	}
	var fields []string
	for _, obj := range why.Objects {
		for _, f := range obj.Fields {
			fields = append(fields, fmt.Sprintf("%s %s: %s %s to %s", obj.Kind, obj.Name, f.Path, f.From, f.To))
		}
	}
	if !slices.ContainsFunc(fields, func(s string) bool {
		return strings.HasPrefix(s, "MachineSet plain-workers-") && strings.HasSuffix(s, ": spec.replicas 1 to 2")
	}) {
		t.Errorf("fields: %q", fields)
	}
}

// TestPlanIsTheSameInAnyOrder makes plans of two Clusters with the writes in either
// order, several at once or not.
func TestPlanIsTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	m := serve(t)
	var want string
	for _, o := range []changeplan.Options{{Parallel: 1}, {Parallel: 4}} {
		for _, change := range [][]changeplan.Write{{upgrade(), shrink()}, {shrink(), upgrade()}} {
			p := plan(t, m, o, change...)
			slices.SortFunc(p.Change, func(a, b planv1.Object) int { return strings.Compare(a.Kind, b.Kind) })
			if got := text(t, p); want == "" {
				want = got
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d at once (-first +this)\n%s", o.Parallel, diff)
			}
		}
	}
}

// TestPlanReportsProgress checks the calls for several Clusters.
func TestPlanReportsProgress(t *testing.T) {
	t.Parallel()
	var calls []string
	plan(t, serve(t), changeplan.Options{Parallel: 1, Progress: func(done, all int, c planv1.Cluster) {
		calls = append(calls, fmt.Sprintf("%d of %d: %s", done, all, c.Name))
	}}, upgrade(), shrink())
	if want := []string{"1 of 2: demo", "2 of 2: plain"}; !slices.Equal(want, calls) {
		t.Errorf("got %q", calls)
	}
}

// TestPlanRefusesBadChanges has changes for which no plan exists.
func TestPlanRefusesBadChanges(t *testing.T) {
	t.Parallel()
	m := serve(t)
	twice := applied(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: new}}")
	for name, tc := range map[string]struct {
		change []changeplan.Write
		want   string
	}{
		"an object that does not exist": {[]changeplan.Write{set("Cluster", "none", "v1.36.0", "spec", "topology", "version")}, "change Cluster default/none: it does not exist"},
		"a value of another type":       {[]changeplan.Write{set("MachineDeployment", "plain-workers", "many", "spec", "replicas")}, "MachineDeployment default/plain-workers"},
		"an object in two documents":    {[]changeplan.Write{twice, upgrade(), twice}, "the change has ConfigMap default/new twice"},
		"an object of two versions":     {[]changeplan.Write{applied(t, "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {namespace: default, name: demo}}"), applied(t, "{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {namespace: default, name: demo}}")}, "the change has Cluster.cluster.x-k8s.io default/demo twice"},
		"too many":                      {make([]changeplan.Write, changeplan.MaxWrites+1), "make several plans"},
	} {
		if p, err := changeplan.Make(t.Context(), changeplan.Options{Mgmt: m, Now: now}, tc.change); p != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: plan %v, error %v", name, p, err)
		}
	}
}

// TestPlanReachesNoCluster has a change of what decides about no Cluster.
func TestPlanReachesNoCluster(t *testing.T) {
	t.Parallel()
	p := plan(t, serve(t), changeplan.Options{}, applied(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: new}}"))
	if len(p.Clusters) != 0 || len(p.Change) != 1 || p.Change[0].Action != planv1.Created || p.Summary != (planv1.Summary{}) {
		t.Errorf("the plan:\n%s", text(t, p))
	}
}

// TestPlanIgnoresWhatNoClusterRefersTo creates an object of a kind of no provider with the
// change of a Cluster, as a kustomization does.
func TestPlanIgnoresWhatNoClusterRefersTo(t *testing.T) {
	t.Parallel()
	m := serve(t)
	inner := m.Client
	m.Client = interceptor.NewClient(m.world.Mgmt, interceptor.Funcs{
		Patch: func(ctx context.Context, _ client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if obj.GetObjectKind().GroupVersionKind().Kind == "Role" {
				return nil
			}
			return inner.Patch(ctx, obj, p, opts...)
		},
	})
	role := applied(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader, namespace: default}, rules: []}")
	if p := plan(t, m, changeplan.Options{}, upgrade(), role); p.Summary.Replaced != 3 || p.Summary.NotPredicted != 0 {
		t.Errorf("the plan:\n%s", text(t, p))
	}
}

// TestPlanStopsWhenCanceled checks that no plan is returned in part.
func TestPlanStopsWhenCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := changeplan.Options{Mgmt: serve(t), Now: now, Parallel: 1, Progress: func(int, int, planv1.Cluster) { cancel() }}
	if p, err := changeplan.Make(ctx, o, []changeplan.Write{upgrade(), shrink()}); p != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("plan %v, error %v", p, err)
	}
}

// TestPlanIsGolden compares the JSON of a plan with an upgrade, hooks and a deletion.
func TestPlanIsGolden(t *testing.T) {
	t.Parallel()
	m := serve(t)
	discovered(t, m, "https://extension.invalid", lifecycle...)
	p := plan(t, m, changeplan.Options{}, upgrade(), shrink())
	got, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	builder.Golden(t, "plan.json", got)
}

// TestPlanOfSeveralClustersIsThatOfEach compares one plan of two writes with two
// plans: no Cluster's copy gets objects of another Cluster.
func TestPlanOfSeveralClustersIsThatOfEach(t *testing.T) {
	t.Parallel()
	m := serve(t)
	want := slices.Concat(plan(t, m, changeplan.Options{}, upgrade()).Clusters, plan(t, m, changeplan.Options{}, shrink()).Clusters)
	if diff := cmp.Diff(want, plan(t, m, changeplan.Options{}, upgrade(), shrink()).Clusters); diff != "" {
		t.Errorf("(-each +both)\n%s", diff)
	}
}

// TestPlanReportsWhatAdmissionRefuses changes a class so that its controller writes what
// admission refuses: no Machine would be replaced.
func TestPlanReportsWhatAdmissionRefuses(t *testing.T) {
	t.Parallel()
	other := applied(t, `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: plane2, namespace: default}
spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {certificatesDir: /etc/pki, encryptionAlgorithm: ECDSA-P256}}}}}
`)
	class := set("ClusterClass", "fleet", "plane2", "spec", "controlPlane", "templateRef", "name")
	p := plan(t, serve(t), changeplan.Options{}, other, class)
	blocked := p.Clusters[0].Blocked
	if p.Summary.Kept != 3 || len(blocked) != 1 || !strings.Contains(blocked[0].Message, "certificatesDir: Forbidden: cannot change") {
		t.Errorf("the plan:\n%s", text(t, p))
	}
}

func TestPlanReportsAQuotaThatIsExceeded(t *testing.T) {
	t.Parallel()
	const name = "count/machines.cluster.x-k8s.io"
	m := serve(t)
	for n, want := range map[string]string{"6": "", "5": "exceeded quota: few, requested: " + name + "=1, used: " + name + "=5, limited: " + name + "=5"} {
		quota := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{name: resource.MustParse(n)}, Used: corev1.ResourceList{name: resource.MustParse("5")},
		}}
		quota.Namespace, quota.Name, quota.UID = "default", "few", "few"
		if err := m.world.Put(quota); err != nil {
			t.Fatal(err)
		}
		p := plan(t, m, changeplan.Options{}, set("MachineDeployment", "plain-workers", int64(2), "spec", "replicas"))
		why := p.Clusters[0].NotPredicted
		if want == "" && (why != nil || p.Summary.Created != 1) || want != "" && (why == nil || !strings.Contains(why.Message, want)) {
			t.Errorf("a quota of %s:\n%s", n, text(t, p))
		}
	}
}
