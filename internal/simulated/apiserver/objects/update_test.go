// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

func through(sub string) objects.Writing { return objects.Writing{Manager: "client", Sub: sub} }

func TestUpdateChecksIdentity(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		reason metav1.StatusReason
		want   string
	}{
		"another version":   {func(u *unstructured.Unstructured) { u.SetResourceVersion("1") }, metav1.StatusReasonConflict, "the object has been modified; please apply your changes to the latest version and try again"},
		"no version":        {func(u *unstructured.Unstructured) { u.SetResourceVersion("") }, "", ""},
		"another UID":       {func(u *unstructured.Unstructured) { u.SetUID(types.UID("other")) }, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: other"},
		"another name":      {func(u *unstructured.Unstructured) { u.SetName("other") }, metav1.StatusReasonBadRequest, "the name of the object (other) does not match the name on the URL (web)"},
		"another namespace": {func(u *unstructured.Unstructured) { u.SetNamespace("kube-system") }, metav1.StatusReasonBadRequest, "does not match"},
		"no namespace":      {func(u *unstructured.Unstructured) { u.SetNamespace("") }, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			u := y.mustCreate(deploymentText)
			got, err := y.change(u, byClient, tc.change)
			refused(t, err, tc.reason, tc.want)
			if err == nil && (got.GetUID() != u.GetUID() || got.GetNamespace() != "default") {
				t.Errorf("got %v, want its identity", got.Object["metadata"])
			}
		})
	}
	y := newYard(t)
	_, err := y.change(object(t, deploymentText), byClient, func(*unstructured.Unstructured) {})
	refused(t, err, metav1.StatusReasonNotFound, `deployments.apps "web" not found`)
}

// TestUpdateRetriesOnNewerVersion: a change that names no version is made on the latest.
func TestUpdateRetriesOnNewerVersion(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	u := y.mustCreate(deploymentText)
	calls := 0
	got, err := y.change(u, byClient, func(latest *unstructured.Unstructured) {
		if calls++; calls < 3 { // another client is faster
			if _, err := y.change(u, byClient, set(t, fmt.Sprint(calls), "metadata.labels.other")); err != nil {
				t.Error(err)
			}
		}
		set(t, int64(9), "spec.replicas")(latest)
		latest.SetResourceVersion("")
	})
	if err != nil || calls != 3 || got.GetLabels()["other"] != "2" || at(got, "spec.replicas") != int64(9) {
		t.Errorf("after %d calls: %v, error %v", calls, got, err)
	}
	_, err = y.change(u, byClient, func(latest *unstructured.Unstructured) {
		if _, err := y.change(u, byClient, set(t, fmt.Sprint(y.store.Entries().Version()), "metadata.labels.other")); err != nil {
			t.Error(err)
		}
		set(t, int64(3), "spec.replicas")(latest)
	})
	refused(t, err, metav1.StatusReasonConflict, "the object has been modified")
}

func TestUpdateRevertsWhatTheServerOwns(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	u := y.mustCreate(deploymentText)
	got, err := y.change(u, byClient, func(u *unstructured.Unstructured) {
		u.SetGeneration(9)
		u.SetCreationTimestamp(metav1.Time{})
		u.SetDeletionTimestamp(new(metav1.NewTime(start)))
		u.SetDeletionGracePeriodSeconds(new(int64(3)))
		u.SetSelfLink("/x")
		u.SetGenerateName("x-")
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(u.Object, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGenerationCountsChangesOfSpec(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	u := y.mustCreate(deploymentText)
	for _, step := range []struct {
		what string
		w    objects.Writing
		f    func(*unstructured.Unstructured)
		want int64
	}{
		{"a label", byClient, set(t, "v", "metadata.labels.k"), 1},
		{"the spec", byClient, set(t, int64(3), "spec.replicas"), 2},
		{"the spec as it is", byClient, set(t, int64(3), "spec.replicas"), 2},
		{"the status", through("status"), set(t, int64(2), "status.replicas"), 2},
		{"the template", byClient, set(t, "v", "spec.template.metadata.labels.k"), 3},
	} {
		before := y.store.Entries().Version()
		got, err := y.change(u, step.w, step.f)
		if err != nil || got.GetGeneration() != step.want {
			t.Errorf("%s: generation %d, error %v, want %d", step.what, got.GetGeneration(), err, step.want)
		}
		if wrote := y.store.Entries().Version() != before; wrote == (step.what == "the spec as it is") {
			t.Errorf("%s: wrote %t", step.what, wrote)
		}
	}
}

func TestSubresourcesWriteTheirPart(t *testing.T) {
	t.Parallel()
	const csr = `
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: r}
spec: {request: TEET, signerName: example.com/s, usages: [client auth]}
`
	all := func(fields map[string]any) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			for path, v := range fields {
				set(t, v, path)(u)
			}
		}
	}
	image := func(u *unstructured.Unstructured) {
		c := at(u, "spec.containers").([]any)[0].(map[string]any)
		c["image"], c["resources"] = "v2", map[string]any{"limits": map[string]any{"cpu": "2"}}
	}
	tests := map[string]struct {
		text, sub string
		f         func(*unstructured.Unstructured)
		want      map[string]any // of paths
	}{
		"the spec, not the status": {deploymentText, "", all(map[string]any{"spec.replicas": int64(5), "status.replicas": int64(5)}),
			map[string]any{"spec.replicas": int64(5), "status.replicas": nil}},
		"the status alone": {deploymentText, "status", all(map[string]any{"spec.replicas": int64(5), "status.replicas": int64(5), "metadata.labels.k": "v"}),
			map[string]any{"spec.replicas": int64(2), "status.replicas": int64(5), "metadata.labels": nil}},
		"the status of core objects and labels": {podText, "status", all(map[string]any{"spec.nodeName": "n", "status.phase": "Running", "metadata.labels.k": "v"}),
			map[string]any{"spec.nodeName": nil, "status.phase": "Running", "metadata.labels.k": "v"}},
		"the conditions of an approval alone": {csr, "approval", all(map[string]any{
			"spec.signerName": "example.com/other", "status.certificate": "TEET", "status.conditions": []any{map[string]any{"type": "Approved", "status": "True", "reason": "Test"}},
		}), map[string]any{"spec.signerName": "example.com/s", "status.certificate": nil, "status.conditions": []any{map[string]any{"type": "Approved", "status": "True", "reason": "Test"}}}},
		"a namespace's finalizers not by an update": {"{apiVersion: v1, kind: Namespace, metadata: {name: team}}", "", all(map[string]any{"spec.finalizers": []any{"x/a"}}),
			map[string]any{"spec.finalizers": []any{"kubernetes"}}},
		"a namespace's finalizers, not its status": {"{apiVersion: v1, kind: Namespace, metadata: {name: team}}", "finalize", all(map[string]any{"spec.finalizers": []any{"x/a"}, "status.phase": "Terminating"}),
			map[string]any{"spec.finalizers": []any{"x/a"}, "status.phase": "Active"}},
		"ephemeral containers alone": {podText, "ephemeralcontainers", all(map[string]any{
			"spec.nodeName": "n", "spec.ephemeralContainers": []any{map[string]any{"name": "debug", "image": "d"}},
		}), map[string]any{"spec.nodeName": nil, "spec.ephemeralContainers.0.name": "debug"}},
		"resources of containers alone": {podText, "resize", image, map[string]any{"spec.containers.0.image": "v1", "spec.containers.0.resources.limits.cpu": "2"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			got, err := y.change(y.mustCreate(tc.text), through(tc.sub), tc.f)
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range tc.want {
				if diff := cmp.Diff(want, item(got.Object, path)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
		})
	}
}

// item is at for a path that can have numbers of items.
func item(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			v = in[name[0]-'0']
		default:
			return nil
		}
	}
	return v
}

func TestImmutableFieldsStay(t *testing.T) {
	t.Parallel()
	const immutable = "field is immutable"
	configMap := func(locked string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: c}, immutable: " + locked + ", data: {a: b}}"
	}
	claim := func(spec string) string {
		return "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: default, name: c}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}" + spec + "}}"
	}
	tests := map[string]struct {
		text string
		f    func(*unstructured.Unstructured)
		want string // of the error
	}{
		"the type of a Secret": {"{apiVersion: v1, kind: Secret, metadata: {namespace: default, name: s}}", set(t, "x/y", "type"), immutable},
		"the selector of a Deployment": {deploymentText, func(u *unstructured.Unstructured) {
			set(t, "v", "spec.selector.matchLabels.k")(u)
			set(t, "v", "spec.template.metadata.labels.k")(u)
		}, immutable},
		"the role of a binding": {"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}",
			set(t, "edit", "roleRef.name"), immutable},
		"the provider of a class":      {"{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: c}, provisioner: p}", set(t, "q", "provisioner"), immutable},
		"the class of a claim":         {claim(", storageClassName: a"), set(t, "b", "spec.storageClassName"), immutable},
		"not a class that comes later": {claim(""), set(t, "b", "spec.storageClassName"), ""},
		"the ID of a Node":             {"{apiVersion: v1, kind: Node, metadata: {name: 'n'}, spec: {providerID: 'a://1'}}", set(t, "a://2", "spec.providerID"), `node updates may not change providerID except from "" to valid`},
		"not the first ID of a Node":   {"{apiVersion: v1, kind: Node, metadata: {name: 'n'}}", set(t, "a://2", "spec.providerID"), ""},
		"data that is locked":          {configMap("true"), set(t, "c", "data.a"), "field is immutable when `immutable` is set"},
		"the lock itself":              {configMap("true"), set(t, false, "immutable"), "field is immutable when `immutable` is set"},
		"not labels of what is locked": {configMap("true"), set(t, "v", "metadata.labels.k"), ""},
		"not data that is not locked":  {configMap("false"), set(t, "c", "data.a"), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			_, err := y.change(y.mustCreate(tc.text), byClient, tc.f)
			reason := metav1.StatusReasonInvalid
			if tc.want == "" {
				reason = ""
			}
			refused(t, err, reason, tc.want)
		})
	}
}

// TestFieldsBelongToTheirWriters: the server records for each manager what it set last.
func TestFieldsBelongToTheirWriters(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	u := y.mustCreate(deploymentText)
	u, err := y.change(u, objects.Writing{Manager: "other"}, set(t, int64(5), "spec.replicas"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := y.change(u, objects.Writing{Manager: "other", Sub: "status"}, set(t, int64(5), "status.replicas")); err != nil {
		t.Fatal(err)
	}
	u, err = y.change(u, objects.Writing{Trusted: true}, set(t, int64(5), "status.readyReplicas"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"client ": "false", "other ": "true", "other status": ""}
	got := map[string]string{}
	for _, f := range u.GetManagedFields() {
		owns := ""
		if f.Subresource == "" {
			owns = fmt.Sprint(containsField(f.FieldsV1, "f:replicas"))
		}
		got[f.Manager+" "+f.Subresource] = owns
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managers, and whether they own spec.replicas (-want +got):\n%s", diff)
	}
}

func TestFinalizersAreOnlyRemovedFromDeletedObjects(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	u := y.mustCreate(deploymentText)
	finalizers := func(names ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { u.SetFinalizers(names) }
	}
	if _, err := y.change(u, byClient, finalizers("x/a", "x/b")); err != nil {
		t.Fatal(err)
	}
	if y.remove(u, metav1.DeleteOptions{}) {
		t.Error("deleted in spite of its finalizers")
	}
	left := y.latest(u)
	if !left.GetDeletionTimestamp().Time.Equal(start) || *left.GetDeletionGracePeriodSeconds() != 0 || left.GetGeneration() != 2 {
		t.Errorf("got %v, want that it is being deleted", left.Object["metadata"])
	}
	_, err := y.change(u, byClient, finalizers("x/a", "x/b", "x/c"))
	refused(t, err, metav1.StatusReasonInvalid, "no new finalizers can be added if the object is being deleted")
	if _, err := y.change(u, byClient, finalizers("x/b")); err != nil {
		t.Error(err)
	}
	if got, err := y.change(u, objects.Writing{Manager: "client", DryRun: true}, finalizers()); err != nil || y.latest(u) == nil {
		t.Errorf("a dry run: %v, error %v", got, err)
	}
	if _, err := y.change(u, byClient, finalizers()); err != nil {
		t.Error(err)
	}
	if y.latest(u) != nil {
		t.Error("kept without finalizers")
	}
	if _, err := y.change(u, byClient, finalizers()); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want not found", err)
	}
}
