// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

// start is the time of the clock of a yard.
var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// yard is a store, with names for its objects.
type yard struct {
	*testing.T
	store *objects.Store
	clock *testclock.FakePassiveClock
}

func newYard(t *testing.T) yard {
	t.Helper()
	c := testclock.NewFakePassiveClock(start)
	s, err := objects.Open(objects.Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	return yard{t, s, c}
}

// byClient is a write as of a client, which manages the fields that it sets.
var byClient = objects.Writing{Manager: "client"}

// object reads YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func (y yard) kind(u *unstructured.Unstructured) *kinds.Kind {
	y.Helper()
	k := y.store.Kinds().ByKind(u.GroupVersionKind())
	if k == nil {
		y.Fatalf("%s is not served", u.GroupVersionKind())
	}
	return k
}

// create creates an object from YAML, and returns it as it was stored.
func (y yard) create(text string, w objects.Writing) (*unstructured.Unstructured, error) {
	y.Helper()
	u := object(y.T, text)
	k := y.kind(u)
	e, err := y.store.Create(k, u.GetNamespace(), u, w)
	if err != nil {
		return nil, err
	}
	return objects.Read(k, e)
}

func (y yard) mustCreate(text string) *unstructured.Unstructured {
	y.Helper()
	u, err := y.create(text, byClient)
	if err != nil {
		y.Fatal(err)
	}
	return u
}

// change writes what f makes of the latest version of an object.
func (y yard) change(u *unstructured.Unstructured, w objects.Writing, f func(*unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	y.Helper()
	k := y.kind(u)
	e, err := y.store.Update(k, u.GetNamespace(), u.GetName(), w, func(latest *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		f(latest)
		return latest, nil
	})
	if err != nil {
		return nil, err
	}
	return objects.Read(k, e)
}

// latest reads an object; nil if it is deleted.
func (y yard) latest(u *unstructured.Unstructured) *unstructured.Unstructured {
	y.Helper()
	k := y.kind(u)
	e, err := y.store.Entry(k, u.GetNamespace(), u.GetName())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		u, err = objects.Read(k, e)
	}
	if err != nil {
		y.Fatal(err)
	}
	return u
}

// remove deletes an object, and reports whether it is deleted already.
func (y yard) remove(u *unstructured.Unstructured, o metav1.DeleteOptions) bool {
	y.Helper()
	_, gone, err := y.store.Delete(y.kind(u), u.GetNamespace(), u.GetName(), o)
	if err != nil {
		y.Fatal(err)
	}
	return gone
}

// refused checks the reason of an error, and a part of its text; neither means no error.
func refused(t *testing.T, err error, reason metav1.StatusReason, text string) {
	t.Helper()
	if reason == "" && text == "" {
		if err != nil {
			t.Errorf("got %v, want no error", err)
		}
		return
	}
	if err == nil || apierrors.ReasonForError(err) != reason || !strings.Contains(err.Error(), text) {
		t.Errorf("got %q %v, want %q with %q", apierrors.ReasonForError(err), err, reason, text)
	}
}

// set sets a field, whose path has dots.
func set(t *testing.T, value any, path string) func(*unstructured.Unstructured) {
	t.Helper()
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, strings.Split(path, ".")...); err != nil {
			t.Error(err)
		}
	}
}

// at reads a field, whose path has dots.
func at(u *unstructured.Unstructured, path string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...) // nil if it has none
	return v
}

const deploymentText = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: default, name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: v1}]}}
status: {replicas: 7}
`

const podText = `
apiVersion: v1
kind: Pod
metadata: {namespace: default, name: p, labels: {app: web}}
spec: {containers: [{name: c, image: v1}]}
`

func containsField(f *metav1.FieldsV1, name string) bool {
	return f != nil && strings.Contains(string(f.Raw), `"`+name+`"`)
}
