// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

func TestCreateChecksIdentity(t *testing.T) {
	t.Parallel()
	configMap := func(meta string) string { return "{apiVersion: v1, kind: ConfigMap, metadata: {" + meta + "}}" }
	named := func(apiVersion, kind, name string) string {
		return "{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {namespace: default, name: '" + name + "'}}"
	}
	const invalid, bad = metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest
	tests := map[string]struct {
		text   string
		reason metav1.StatusReason
		want   string
	}{
		"with a name":                   {configMap("namespace: default, name: a"), "", ""},
		"without a name":                {configMap("namespace: default"), invalid, "metadata.name: Required value: name or generateName is required"},
		"in a namespace that is absent": {configMap("namespace: absent, name: a"), metav1.StatusReasonNotFound, `namespaces "absent" not found`},
		"with a name that is taken":     {named("v1", "ServiceAccount", "default"), metav1.StatusReasonAlreadyExists, `serviceaccounts "default" already exists`},
		"with a version":                {configMap("namespace: default, name: a, resourceVersion: '1'"), metav1.StatusReasonUnknown, "resourceVersion should not be set on objects to be created"},
		"without namespace, of a Node":  {"{apiVersion: v1, kind: Node, metadata: {name: a}}", "", ""},
		"in a namespace, of a Node":     {named("v1", "Node", "a"), invalid, "metadata.namespace: Forbidden: not allowed on this type"},
		"with capitals":                 {named("v1", "ConfigMap", "A"), invalid, "RFC 1123 subdomain"},
		"a role with a colon":           {named("rbac.authorization.k8s.io/v1", "Role", "kubeadm:x"), "", ""},
		"a role with a slash":           {named("rbac.authorization.k8s.io/v1", "Role", "a/b"), invalid, "may not contain '/'"},
		"a Service with a dot":          {named("v1", "Service", "a.b"), invalid, "metadata.name: Invalid value"},
		"a Job of 64 letters":           {named("batch/v1", "Job", strings.Repeat("a", 64)), invalid, "must be no more than 63"},
		"a CronJob of 53 letters":       {named("batch/v1", "CronJob", strings.Repeat("a", 53)), invalid, "must be no more than 52"},
		"a namespace of 64 letters":     {"{apiVersion: v1, kind: Namespace, metadata: {name: " + strings.Repeat("a", 64) + "}}", invalid, "must be no more than 63"},
		"a finalizer without a domain":  {configMap("namespace: default, name: a, finalizers: [mine]"), invalid, "name is neither a standard finalizer name nor is it fully qualified"},
		"a class without provisioner":   {"{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: a}}", invalid, "provisioner: Required value"},
		"a LimitRange without a name":   {"{apiVersion: v1, kind: LimitRange, metadata: {namespace: default}, spec: {limits: []}}", "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newYard(t).create(tc.text, byClient)
			refused(t, err, tc.reason, tc.want)
		})
	}
	t.Run("by the path of another namespace", func(t *testing.T) {
		t.Parallel()
		y, u := newYard(t), object(t, configMap("namespace: default, name: a"))
		_, err := y.store.Create(y.kind(u), "kube-system", u, byClient)
		refused(t, err, bad, "the namespace of the provided object does not match the namespace sent on the request")
	})
}

func TestCreateGeneratesNames(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for prefix, want := range map[string]string{"short-": "short-", strings.Repeat("x", 70): strings.Repeat("x", 58)} {
		names := map[string]bool{}
		for range 3 {
			u := y.mustCreate("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, generateName: " + prefix + "}}")
			if names[u.GetName()] || !strings.HasPrefix(u.GetName(), want) || len(u.GetName()) != len(want)+5 || u.GetGenerateName() != prefix {
				t.Errorf("got %s of prefix %s, want %s with 5 others", u.GetName(), u.GetGenerateName(), want)
			}
			names[u.GetName()] = true
		}
	}
}

func TestCreateSetsWhatTheServerOwns(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	const meta = `namespace: default, name: a, uid: mine, creationTimestamp: "2000-01-01T00:00:00Z", deletionTimestamp: "2000-01-01T00:00:00Z",
  deletionGracePeriodSeconds: 5, generation: 7, selfLink: /x`
	c := y.mustCreate("apiVersion: v1\nkind: ConfigMap\nmetadata: {" + meta + "}\n")
	got := c.Object["metadata"].(map[string]any)
	if c.GetUID() == "mine" || c.GetUID() == "" || !c.GetCreationTimestamp().Time.Equal(start) || c.GetResourceVersion() == "" {
		t.Errorf("got metadata %v, want the server's", got)
	}
	for _, name := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"} {
		if v, ok := got[name]; ok {
			t.Errorf("got %s %v, want none", name, v)
		}
	}
	d := y.mustCreate(deploymentText)
	if d.GetGeneration() != 1 || at(d, "status.replicas") != nil {
		t.Errorf("got generation %d and status %v, want 1 and none", d.GetGeneration(), d.Object["status"])
	}
	n := y.mustCreate("{apiVersion: v1, kind: Node, metadata: {name: 'n'}, status: {phase: Running}}")
	if at(n, "status.phase") != "Running" {
		t.Errorf("got status %v of a Node, want that of its kubelet", n.Object["status"])
	}
	if fields := d.GetManagedFields(); len(fields) != 1 || fields[0].Manager != "client" || fields[0].Operation != metav1.ManagedFieldsOperationUpdate {
		t.Errorf("got managed fields %v, want those of the client", fields)
	}
}

func TestCreateCompletesObjects(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	secret := y.mustCreate("{apiVersion: v1, kind: Secret, metadata: {namespace: default, name: s}, data: {a: Yg==, c: ZA==}, stringData: {a: x}}")
	if diff := cmp.Diff(map[string]any{"a": "eA==", "c": "ZA=="}, secret.Object["data"]); diff != "" || secret.Object["stringData"] != nil || secret.Object["type"] != "Opaque" {
		t.Errorf("Secret %v (-want +got):\n%s", secret.Object, diff)
	}
	const template = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: v1}]}}"
	job := y.mustCreate("apiVersion: batch/v1\nkind: Job\nmetadata: {namespace: default, name: j}\nspec:\n  " + template + "\n")
	uid := string(job.GetUID())
	if diff := cmp.Diff(map[string]any{"matchLabels": map[string]any{"batch.kubernetes.io/controller-uid": uid}}, at(job, "spec.selector")); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	want := map[string]any{"controller-uid": uid, "job-name": "j", "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "j"}
	if diff := cmp.Diff(want, at(job, "spec.template.metadata.labels")); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	namespace := y.mustCreate("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	if namespace.GetLabels()["kubernetes.io/metadata.name"] != "team" || at(namespace, "status.phase") != "Active" {
		t.Errorf("Namespace %v", namespace.Object)
	}
	if err := y.store.Load(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "default"}}); err != nil {
		t.Errorf("its account: %v", err)
	}
}

func TestCreateAddsTolerationsToPods(t *testing.T) {
	t.Parallel()
	const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	tests := map[string]struct {
		has  string
		want []string // keys of tolerations with their seconds
	}{
		"none":                        {"[]", []string{notReady + " 300", unreachable + " 300"}},
		"its own of one":              {"[{key: " + notReady + ", operator: Exists, effect: NoExecute, tolerationSeconds: 7}]", []string{notReady + " 7", unreachable + " 300"}},
		"of all taints":               {"[{operator: Exists}]", []string{" none"}},
		"of all that only repel":      {"[{operator: Exists, effect: NoSchedule}]", []string{" none", notReady + " 300", unreachable + " 300"}},
		"of another key of NoExecute": {"[{key: k, operator: Exists, effect: NoExecute}]", []string{"k none", notReady + " 300", unreachable + " 300"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newYard(t).mustCreate(strings.Replace(podText, "spec: {", "spec: {tolerations: "+tc.has+", ", 1))
			list, _, err := unstructured.NestedSlice(p.Object, "spec", "tolerations")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range list {
				key, _ := v.(map[string]any)["key"].(string)
				seconds := "none"
				switch v.(map[string]any)["tolerationSeconds"] {
				case int64(300):
					seconds = "300"
				case int64(7):
					seconds = "7"
				}
				got = append(got, key+" "+seconds)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOwnersAreStoredOnce: owners that are repeated need not follow each other.
func TestOwnersAreStoredOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	one, two := y.add("one", false), y.add("two", false)
	c := y.add("c", true, one, two, one, one)
	if len(c.OwnerReferences) != 2 || c.OwnerReferences[0].UID != one.UID || c.OwnerReferences[1].UID != two.UID {
		t.Errorf("got owners %v, want two", c.OwnerReferences)
	}
	y.own(c, true, two)
	if len(c.OwnerReferences) != 2 {
		t.Errorf("got owners %v after one more, want two", c.OwnerReferences)
	}
	y.own(c, false, two) // which differs
	if len(c.OwnerReferences) != 3 {
		t.Errorf("got owners %v, want the one that differs too", c.OwnerReferences)
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	kept := y.mustCreate(deploymentText)
	version := y.store.Entries().Version()
	dry := objects.Writing{Manager: "client", DryRun: true}
	for _, text := range []string{
		podText, "{apiVersion: v1, kind: Namespace, metadata: {name: team}}",
		"{apiVersion: v1, kind: Service, metadata: {namespace: default, name: s}, spec: {ports: [{port: 80}]}}",
	} {
		u, err := y.create(text, dry)
		if err != nil || u.GetUID() == "" || u.GetResourceVersion() != "" {
			t.Errorf("got %v, error %v, want an object without version", u, err)
		}
	}
	u, err := y.change(kept, dry, set(t, int64(5), "spec.replicas"))
	if err != nil || at(u, "spec.replicas") != int64(5) || u.GetGeneration() != 2 || u.GetResourceVersion() != kept.GetResourceVersion() {
		t.Errorf("changed: got %v, error %v", u, err)
	}
	if _, err := y.create(deploymentText, dry); !apierrors.IsAlreadyExists(err) {
		t.Errorf("of a name that is taken: %v", err)
	}
	y.remove(kept, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	if got := y.store.Entries().Version(); got != version {
		t.Errorf("the store is at version %d, want %d", got, version)
	}
}

func TestCheckRefusesWrites(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	no := errors.New("no")
	w := objects.Writing{Check: func(was, next *unstructured.Unstructured) error {
		if was == nil || at(next, "data.a") == "bad" {
			return no
		}
		return nil
	}}
	if _, err := y.create("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: c}}", w); !errors.Is(err, no) {
		t.Errorf("got %v, want that of the check", err)
	}
	y.want("what was refused")
	c := y.mustCreate("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: c}}")
	if _, err := y.change(c, w, set(t, "bad", "data.a")); !errors.Is(err, no) {
		t.Errorf("got %v, want that of the check", err)
	}
	if _, err := y.change(c, w, set(t, "good", "data.a")); err != nil {
		t.Error(err)
	}
}

// TestContentOfDeletedNamespaceIsDeleted: a client can pass the check of its namespace
// just before that is deleted.
func TestContentOfDeletedNamespaceIsDeleted(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	held := y.mustCreate("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	y.mustCreate("{apiVersion: v1, kind: Secret, metadata: {namespace: team, name: held, finalizers: [x/a]}}")
	_, err := y.create("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: team, name: late}}", objects.Writing{Check: func(_, _ *unstructured.Unstructured) error {
		y.remove(held, metav1.DeleteOptions{})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := y.store.Entry(kinds.ByType(&corev1.ConfigMap{}), "team", "late"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want that it is deleted", err)
	}
	_, err = y.create("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: team, name: later}}", byClient)
	refused(t, err, metav1.StatusReasonForbidden, "unable to create new content in namespace team because it is being terminated")
}
