// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// tenantVariable holds how long the tenant attacks. By default each attack is made at
// least once.
const tenantVariable = "CAPSTAN_TENANT"

// TestTenantStopsNoOtherNamespace: an account with the usual rights in one namespace
// writes objects that cost too much or make no sense, directly and into its workload
// cluster, while clusters are created and deleted in another namespace. All of them become
// available and are deleted, and the plane is the same process.
func TestTenantStopsNoOtherNamespace(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	var length time.Duration
	if text := os.Getenv(tenantVariable); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	tenant := f.tenant("tenant")
	cycle := func(name string) time.Duration {
		start := time.Now()
		f.create(name, shape{workers: 1})
		f.becomes(name)
		f.remove(name)
		return time.Since(start)
	}
	before := []time.Duration{cycle("before0"), cycle("before1"), cycle("before2")}

	attacks := tenantAttacks()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var made, refused atomic.Int64
	round := make(chan struct{}) // closed after the first
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			for _, name := range slices.Sorted(maps.Keys(attacks)) {
				err := tenant.attack(ctx, attacks[name])
				if made.Add(1); err != nil {
					refused.Add(1)
				}
				if n == 0 && err != nil && !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) && ctx.Err() == nil {
					t.Errorf("%s: got %v, want it accepted, or refused for what is in it", name, err)
				}
			}
			if n == 0 {
				close(round)
			}
			tenant.clear(ctx)
		}
	}()
	var during []time.Duration
	start := time.Now()
	for i := 0; i < 2 || !isClosed(round) || time.Since(start) < length; i++ {
		during = append(during, cycle(fmt.Sprintf("during%d", i)))
		if t.Failed() {
			break
		}
	}
	stop()
	<-ended
	if how, exited := p.process.Exit(); exited {
		t.Fatalf("the plane has exited: %s", how)
	}
	slices.Sort(before)
	slices.Sort(during)
	ratio := float64(during[len(during)/2]) / float64(before[len(before)/2])
	t.Logf("%d attacks, %d refused; %d clusters, which took %.1f times as long", made.Load(), refused.Load(), len(during), ratio)
	if length > 0 && ratio > 2 {
		t.Errorf("clusters of another namespace take %.1f times as long, want at most twice", ratio)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// attacker is the account of a tenant, with a Cluster of its own.
type attacker struct {
	fleet
	user client.Client
}

// tenant creates a namespace, an account that may write usual kinds there, and a Cluster.
func (f fleet) tenant(name string) *attacker {
	f.Helper()
	env := *f.Env
	env.Namespace = name
	own := fleet{f.T, &env}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"*"}},
		{APIGroups: []string{core, bootstrap, planes, infra, addonsv1.GroupVersion().Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}}
	f.must(rbacv1.AddToScheme(f.Client.Scheme()))
	own.make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, role, &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}})
	config := rest.CopyConfig(f.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	config.QPS = -1
	user, err := client.New(config, client.Options{Scheme: f.Client.Scheme()})
	f.must(err)
	own.create("c", shape{workers: 1, change: func(obj client.Object) { obj.SetLabels(map[string]string{"addons": "yes"}) }})
	own.becomes("c")
	return &attacker{own, user}
}

// attackLabel is on what clear deletes.
const attackLabel = "attack"

// attack creates the objects of documents, and returns the first refusal.
func (a *attacker) attack(ctx context.Context, documents string) (refusal error) {
	for doc := range strings.SplitSeq(documents, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		u.SetNamespace(a.Namespace)
		u.SetLabels(map[string]string{attackLabel: "yes"})
		if err := a.user.Create(ctx, u); err != nil && !apierrors.IsAlreadyExists(err) && refusal == nil {
			refusal = err
		}
	}
	return refusal
}

// clear deletes what attacks created.
func (a *attacker) clear(ctx context.Context) {
	for _, kind := range []string{"Cluster", "MachineSet", "MachineDeployment", "ClusterClass", "Machine"} {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(core + "/v1beta2")
		u.SetKind(kind)
		_ = a.user.DeleteAllOf(ctx, u, client.InNamespace(a.Namespace), client.MatchingLabels{attackLabel: "yes"}) // the next round finds what is left
	}
	for _, u := range []client.Object{&addonsv1.ClusterResourceSet{}, &corev1.ConfigMap{}, &corev1.Secret{}} {
		_ = a.user.DeleteAllOf(ctx, u, client.InNamespace(a.Namespace), client.MatchingLabels{attackLabel: "yes"}) // as above
	}
}

// tenantAttacks are objects by what is wrong with them.
func tenantAttacks() map[string]string {
	out := map[string]string{}
	for name, bomb := range builder.TemplateBombs() {
		object := func(kind, spec string) {
			out[kind+" with "+name] = fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: %s", map[string]string{
				"MachineSet": core + "/v1beta2", "MachineDeployment": core + "/v1beta2", "ClusterClass": core + "/v1beta2", "KubeadmConfig": bootstrap + "/v1beta2", "KubeadmControlPlane": planes + "/v1beta2",
			}[kind], kind, strings.ReplaceAll(name, " ", "-"), spec)
		}
		naming := fmt.Sprintf("{template: %q}", bomb+"{{ .random }}")
		of := "clusterName: c, template: {spec: {clusterName: c, version: v1.36.3, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachineTemplate, name: c-workers}}}, machineNaming: " + naming
		object("MachineSet", "{"+of+"}")
		object("MachineDeployment", "{"+of+"}")
		object("KubeadmControlPlane", "{version: v1.36.3, replicas: 1, machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachineTemplate, name: c-control-plane}}}, kubeadmConfigSpec: {}, machineNaming: "+naming+"}")
		object("KubeadmConfig", fmt.Sprintf("{files: [{path: /a, contentFormat: go-template, content: %q}]}", bomb))
		object("ClusterClass", "{infrastructure: {naming: "+naming+", templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: t}}, controlPlane: {templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: t}}}")
	}
	class := func(schema string) string {
		return `apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: heavy}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalClusterTemplate, name: t}}
  controlPlane: {templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: t}}
  variables: [{name: v, required: false, schema: {openAPIV3Schema: ` + schema + `}}]`
	}
	out["pattern"] = class(`{type: string, pattern: '` + strings.Repeat("(a{1,1000}", 3) + strings.Repeat("){1,1000}", 3) + `', default: ` + strings.Repeat("a", 10000) + `}`)
	out["deep schema"] = class(strings.Repeat("{type: object, properties: {a: ", 200) + "{type: string}" + strings.Repeat("}}", 200))
	out["long enum"] = class("{type: string, enum: [" + strings.Join(texts(20000), ", ") + "]}")
	out["rule"] = class(`{type: array, items: {type: array, items: {type: string}}, x-kubernetes-validations: [{rule: "self.all(a, self.all(b, self.all(c, self.all(d, a == b))))"}]}`)
	out["replicas"] = `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineSet
metadata: {name: many}
spec: {clusterName: c, replicas: 2000000000, template: {spec: {clusterName: c, version: v1.36.3, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalMachineTemplate, name: nowhere}}}}`
	out["name of 253 characters"] = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: " + strings.Repeat("a.", 126) + "a}\nspec: {infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalCluster, name: nowhere}}"
	out["name of another's cluster"] = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: during0}\nspec: {infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalCluster, name: during0}}"
	out["kubeconfig"] = `apiVersion: v1
kind: Secret
metadata: {name: during0-kubeconfig}
type: cluster.x-k8s.io/secret
stringData: {value: "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"}`
	out["authority"] = "apiVersion: v1\nkind: Secret\nmetadata: {name: during0-ca}\ntype: cluster.x-k8s.io/secret\nstringData: {tls.crt: x, tls.key: x}"
	out["quota"] = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {count/secrets: '0'}}"
	out["endpoints of a name"] = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: e}\naddressType: FQDN\nendpoints: [{addresses: [localhost]}]"
	for name, document := range addonAttacks() {
		out["add-on: "+name] = fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s}
data: {a: %[2]q}
---
apiVersion: addons.cluster.x-k8s.io/v1beta2
kind: ClusterResourceSet
metadata: {name: %[1]s}
spec: {clusterSelector: {matchLabels: {addons: 'yes'}}, strategy: ApplyOnce, resources: [{kind: ConfigMap, name: %[1]s}]}`, strings.ReplaceAll(name, " ", "-"), document)
	}
	return out
}

// addonAttacks are objects for the workload cluster.
func addonAttacks() map[string]string {
	const work = "spec: {restartPolicy: Never, containers: [{name: c, image: x}]}"
	object := func(kind, rest string) string {
		return "apiVersion: " + map[string]string{"CronJob": "batch/v1", "Job": "batch/v1", "StatefulSet": "apps/v1", "Deployment": "apps/v1", "EndpointSlice": "discovery.k8s.io/v1"}[kind] + "\nkind: " + kind + "\nmetadata: {name: a, namespace: default}\n" + rest
	}
	var many strings.Builder
	for _, name := range texts(3000) {
		fmt.Fprintf(&many, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\n---\n", name)
	}
	return map[string]string{
		"time zone":    object("CronJob", "spec: {schedule: 'TZ=0', jobTemplate: {spec: {template: {"+work+"}}}}"),
		"no schedule":  object("CronJob", "spec: {schedule: '* * 31 2 *', jobTemplate: {spec: {template: {"+work+"}}}}"),
		"negative":     object("Job", "spec: {parallelism: -1, template: {"+work+"}}"),
		"parallelism":  object("Job", "spec: {parallelism: 2000000000, completions: 2000000000, template: {"+work+"}}"),
		"replicas":     object("StatefulSet", "spec: {replicas: 2000000000, serviceName: a, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}"),
		"deployment":   object("Deployment", "spec: {replicas: 2000000000, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}"),
		"endpoints":    object("EndpointSlice", "addressType: FQDN\nendpoints: [{addresses: [localhost, metadata.google.internal]}]"),
		"many":         many.String(),
		"aliases":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\nx0: &a [a,a,a,a,a,a,a,a,a,a]\nx1: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nx2: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nx3: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nx4: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nx5: [*e,*e,*e,*e,*e,*e,*e,*e,*e]",
		"deep":         "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\nx: " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
		"no namespace": "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system}\nspec: {finalizers: [x]}",
	}
}

// texts returns n different names.
func texts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("a%d", i)
	}
	return out
}
