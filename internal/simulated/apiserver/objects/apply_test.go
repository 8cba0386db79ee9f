// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

func (y yard) apply(manager, text string, force bool, f ...func(*objects.Writing)) (*unstructured.Unstructured, bool, error) {
	y.Helper()
	u, w := object(y.T, text), objects.Writing{Manager: manager}
	for _, f := range f {
		f(&w)
	}
	k := y.kind(u)
	e, created, err := y.store.Apply(k, u.GetNamespace(), u, force, w)
	if err != nil {
		return nil, created, err
	}
	got, err := objects.Read(k, e)
	return got, created, err
}

func config(data string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: c}, data: {" + data + "}}"
}

func TestApplyCreatesAndUpdates(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	u, created, err := y.apply("a", config("x: '1', y: '1'"), false)
	if err != nil || !created || u.GetUID() == "" {
		t.Fatalf("got %v, created %t, error %v", u, created, err)
	}
	fields := u.GetManagedFields()
	if len(fields) != 1 || fields[0].Operation != metav1.ManagedFieldsOperationApply || fields[0].Manager != "a" {
		t.Errorf("got fields %v", fields)
	}
	version := u.GetResourceVersion()
	if u, created, err = y.apply("a", config("x: '1', y: '1'"), false); err != nil || created || u.GetResourceVersion() != version {
		t.Errorf("the same again: version %s, created %t, error %v, want %s", u.GetResourceVersion(), created, err, version)
	}
	if u, _, err = y.apply("b", config("z: '1'"), false); err != nil || at(u, "data.x") != "1" || at(u, "data.z") != "1" {
		t.Errorf("by another manager: %v, error %v", u, err)
	}
	if u, _, err = y.apply("a", config("x: '2'"), false); err != nil || at(u, "data.x") != "2" || at(u, "data.y") != nil || at(u, "data.z") != "1" {
		t.Errorf("without a field: %v, error %v; want that it is removed", u, err)
	}
}

func TestApplyReportsConflicts(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	if _, _, err := y.apply("a", config("x: '1'"), false); err != nil {
		t.Fatal(err)
	}
	_, _, err := y.apply("b", config("x: '2'"), false)
	refused(t, err, metav1.StatusReasonConflict, `conflict with "a": .data.x`)
	if u, _, err := y.apply("b", config("x: '1'"), false); err != nil || len(u.GetManagedFields()) != 2 {
		t.Errorf("the same value: %v, error %v, want two managers", u, err)
	}
	u, _, err := y.apply("b", config("x: '2'"), true)
	if err != nil || at(u, "data.x") != "2" || len(u.GetManagedFields()) != 1 || u.GetManagedFields()[0].Manager != "b" {
		t.Errorf("by force: %v, error %v, want one manager", u, err)
	}
}

func TestApplyChecksIdentity(t *testing.T) {
	t.Parallel()
	with := func(meta string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: c, " + meta + "}}"
	}
	y := newYard(t)
	_, created, err := y.apply("a", with("uid: other"), false)
	refused(t, err, metav1.StatusReasonConflict, "uid mismatch")
	if created {
		t.Error("it reports that it created what it refused")
	}
	if _, _, err := y.apply("a", config(""), false); err != nil {
		t.Fatal(err)
	}
	_, _, err = y.apply("a", with("uid: other"), false)
	refused(t, err, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: other")
	_, _, err = y.apply("a", with("resourceVersion: '1'"), false)
	refused(t, err, metav1.StatusReasonConflict, "the object has been modified")
	_, _, err = y.apply("a", "{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: absent}}", false, func(w *objects.Writing) { w.Sub = "status" })
	refused(t, err, metav1.StatusReasonNotFound, `pods "absent" not found`)
	_, _, err = y.apply("a", "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: absent, name: c}}", false)
	refused(t, err, metav1.StatusReasonNotFound, `namespaces "absent" not found`)
}

func TestApplyWritesStatusAlone(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.mustCreate(deploymentText)
	u, _, err := y.apply("a", "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: web, labels: {k: v}}, status: {replicas: 4}}", false,
		func(w *objects.Writing) { w.Sub = "status" })
	if err != nil || at(u, "status.replicas") != int64(4) || u.GetLabels() != nil || u.GetGeneration() != 1 {
		t.Errorf("got %v, error %v", u, err)
	}
	if u, _, err = y.apply("a", "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: web}, spec: {replicas: 3}}", true); err != nil || u.GetGeneration() != 2 || at(u, "status.replicas") != int64(4) {
		t.Errorf("of the spec: %v, error %v", u, err)
	}
}

func TestApplyInDryRunStoresNothing(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	dry := func(w *objects.Writing) { w.DryRun = true }
	u, created, err := y.apply("a", config("x: '1'"), false, dry)
	if err != nil || !created || at(u, "data.x") != "1" || y.latest(u) != nil {
		t.Errorf("got %v, created %t, error %v, want nothing stored", u, created, err)
	}
	if _, _, err := y.apply("a", config("x: '1'"), false); err != nil {
		t.Fatal(err)
	}
	if u, _, err = y.apply("a", config("x: '2'"), false, dry); err != nil || at(u, "data.x") != "2" || at(y.latest(u), "data.x") != "1" {
		t.Errorf("got %v, error %v, want 1 stored", u, err)
	}
}

// TestApplyRefusesWhatNoClientCanRead: a merge does not check the form of texts.
func TestApplyRefusesWhatNoClientCanRead(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	const text = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {namespace: default, name: l}, spec: {renewTime: soon}}"
	if _, _, err := y.apply("a", text, false); !apierrors.IsBadRequest(err) {
		t.Errorf("got %v, want a bad request", err)
	}
	if _, err := y.store.Entry(y.kind(object(t, text)), "default", "l"); !apierrors.IsNotFound(err) {
		t.Errorf("stored: %v", err)
	}
}
