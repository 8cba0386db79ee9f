// SPDX-License-Identifier: Apache-2.0

package crdmigrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/migration"
)

const name = "hosts.x.io"

// server is an API server with a definition and objects of its kind, which it lists
// in pages of the requested size.
type server struct {
	*testing.T
	*Reconciler
	client.Client
	events *events.FakeRecorder

	calls  []string         // writes and lists
	refuse map[string]error // of objects, by name
	expire bool             // the next token has expired
}

// definition returns a definition that is served at v1 and stored at v2, and was
// stored at v1 before.
func definition() *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}}
	crd.Spec.Group, crd.Spec.Names.Kind = "x.io", "Host"
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v0"}, {Name: "v1", Served: true},
		{Name: "v2", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}},
	}
	crd.Status.StoredVersions = []string{"v1", "v2"}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return crd
}

func newServer(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, hosts int, managedFields ...metav1.ManagedFieldsEntry) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "x.io", Version: "v2", Kind: "Host"}
	scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("HostList"), &unstructured.UnstructuredList{})
	objects := []client.Object{crd}
	for i := range hosts {
		host := &unstructured.Unstructured{}
		host.SetGroupVersionKind(kind)
		host.SetNamespace("ns")
		host.SetName(fmt.Sprintf("h%03d", i))
		host.SetManagedFields(managedFields)
		objects = append(objects, host)
	}
	s := &server{T: t, refuse: map[string]error{}, events: events.NewFakeRecorder(10)}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(crd).WithInterceptorFuncs(interceptor.Funcs{
		List: s.page, Patch: s.patch, SubResourcePatch: s.patchStatus,
	}).WithReturnManagedFields().Build()
	s.Reconciler = &Reconciler{Name: "crdmigrator", Mgmt: s, Live: s, Definitions: []string{name}, Recorder: s.events}
	return s
}

// page lists objects in pages as a server does, which a fake client does not.
func (s *server) page(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	s.calls = append(s.calls, "list")
	if s.expire && o.Continue != "" {
		s.expire = false
		err := apierrors.NewResourceExpired("too old")
		err.ErrStatus.ListMeta.Continue = o.Continue
		return err
	}
	if err := c.List(ctx, list); err != nil {
		return err
	}
	from, _ := strconv.Atoi(o.Continue)
	all := list.(*metav1.PartialObjectMetadataList)
	to := min(len(all.Items), from+int(o.Limit))
	if to < len(all.Items) {
		all.Continue = strconv.Itoa(to)
	}
	all.Items = all.Items[from:to]
	return nil
}

func (s *server) patch(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := s.note("patch", obj, p); err != nil {
		return err
	}
	return c.Patch(ctx, obj, p, opts...)
}

func (s *server) patchStatus(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := s.note("patch "+sub, obj, p); err != nil || obj.GetName() != name {
		return err // nothing in a host would change
	}
	return c.SubResource(sub).Patch(ctx, obj, p, opts...)
}

func (s *server) note(verb string, obj client.Object, p client.Patch) error {
	body, err := p.Data(obj)
	if err != nil {
		return err
	}
	if obj.GetName() == name || len(s.calls) < 10 {
		s.calls = append(s.calls, fmt.Sprintf("%s %s %s", verb, obj.GetName(), strings.ReplaceAll(string(body), `"999"`, "RV")))
	} else {
		s.calls = append(s.calls, verb+" "+obj.GetName())
	}
	return s.refuse[obj.GetName()]
}

func (s *server) definition() *apiextensionsv1.CustomResourceDefinition {
	s.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.Client.Get(s.Context(), client.ObjectKey{Name: name}, crd); err != nil {
		s.Fatal(err)
	}
	return crd
}

// reconcile calls the controller once, and reports whether it requests another
// call.
func (s *server) reconcile() (more bool, err error) {
	s.Helper()
	crd := Definition()
	crd.ObjectMeta = s.definition().ObjectMeta
	res, err := s.Reconcile(s.Context(), crd)
	return res.RequeueAfter > 0, err
}

// rest reconciles until the migration is complete.
func (s *server) rest() {
	s.Helper()
	for range 20 {
		more, err := s.reconcile()
		if err != nil {
			s.Fatal(err)
		}
		if !more {
			return
		}
	}
	s.Fatal("it continues without end")
}

// wrote checks the calls since its last invocation.
func (s *server) wrote(want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.calls); diff != "" {
		s.Errorf("calls (-want +got):\n%s", diff)
	}
	s.calls = nil
}

func (s *server) migrated(want ...string) {
	s.Helper()
	crd := s.definition()
	if got := crd.Status.StoredVersions; !slices.Equal(got, want) {
		s.Errorf("stored versions %v, want %v", got, want)
	}
	if got := crd.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation]; got != "3" {
		s.Errorf("observed generation %q, want 3", got)
	}
}

func TestObjectsAreMigratedOncePerGeneration(t *testing.T) {
	t.Parallel()
	s := newServer(t, definition(), 2)
	s.rest()
	s.wrote("list", `patch status h000 {"metadata":{"resourceVersion":RV}}`, `patch status h001 {"metadata":{"resourceVersion":RV}}`,
		`patch status hosts.x.io {"metadata":{"resourceVersion":RV},"status":{"storedVersions":["v2"]}}`,
		`patch hosts.x.io {"metadata":{"annotations":{"crd-migration.cluster.x-k8s.io/observed-generation":"3"}}}`)
	s.migrated("v2")
	s.rest()
	s.wrote()
	if len(s.events.Events) != 1 {
		t.Errorf("%d events, want 1", len(s.events.Events))
	}
}

func TestMigratedObjectsAreOnlyRead(t *testing.T) {
	t.Parallel()
	stored := definition()
	stored.Status.StoredVersions = []string{"v2"}
	noted := `patch hosts.x.io {"metadata":{"annotations":{"crd-migration.cluster.x-k8s.io/observed-generation":"3"}}}`
	old := metav1.ManagedFieldsEntry{Manager: "a", Operation: "Apply", APIVersion: "x.io/v0", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{}`)}}
	cleaned := `patch h000 [{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"a","operation":"Apply","apiVersion":"x.io/v2","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:name":{}}}}]},{"op":"replace","path":"/metadata/resourceVersion","value":RV}]`
	tests := map[string]struct {
		crd    *apiextensionsv1.CustomResourceDefinition
		fields []metav1.ManagedFieldsEntry
		skip   Phases
		want   []string
	}{
		"with managedFields of a version that is not served": {stored, []metav1.ManagedFieldsEntry{old}, nil, []string{"list", cleaned, noted}},
		"with managedFields as they should be":               {stored, nil, nil, []string{"list", noted}},
		"no controller checks managedFields":                 {stored, []metav1.ManagedFieldsEntry{old}, Phases{CleanupManagedFields}, []string{noted}},
		"no controller rewrites objects":                     {definition(), nil, Phases{StorageVersionMigration}, []string{"list", noted}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tc.crd.DeepCopy(), 1, tc.fields...)
			s.Skip = tc.skip
			s.rest()
			s.wrote(tc.want...)
			s.migrated(tc.crd.Status.StoredVersions...)
		})
	}
}

func TestObjectsWithoutAStatusAreWrittenThemselves(t *testing.T) {
	t.Parallel()
	crd := definition()
	crd.Spec.Versions[2].Subresources = nil
	s := newServer(t, crd, 1)
	s.rest()
	if want := `patch h000 {"metadata":{"resourceVersion":RV}}`; !slices.Contains(s.calls, want) {
		t.Errorf("calls %q, want %q", s.calls, want)
	}
}

func TestObjectsAreGoneThroughInPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, definition(), 2*migration.PageSize+1)
	s.expire = true
	for i, want := range []int{migration.PageSize, 0, migration.PageSize, 1} { // the second token has expired
		s.calls = nil
		more, err := s.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		if got := len(slices.DeleteFunc(slices.Clone(s.calls), func(c string) bool { return !strings.Contains(c, " h") || strings.Contains(c, name) })); got != want || more != (i < 3) {
			t.Errorf("reconcile %d: %d objects and more: %v, want %d", i, got, more, want)
		}
	}
	s.migrated("v2")
}

// TestAProcessThatEndsInBetweenBeginsAgain has another process continue after each
// number of writes.
func TestAProcessThatEndsInBetweenBeginsAgain(t *testing.T) {
	t.Parallel()
	ended := errors.New("ended")
	for writes := range 5 {
		s := newServer(t, definition(), 3)
		for i := writes; i < 3; i++ {
			s.refuse[fmt.Sprintf("h%03d", i)] = ended
		}
		if writes >= 3 {
			s.refuse[name] = ended
		}
		if _, err := s.reconcile(); writes > 3 && err == nil {
			t.Fatal("it did not end")
		}
		if crd := s.definition(); crd.Annotations != nil || len(crd.Status.StoredVersions) != 2 {
			t.Errorf("after %d writes all is said to be done", writes)
		}
		s.Reconciler, s.refuse = &Reconciler{Mgmt: s, Live: s, Definitions: []string{name}, Recorder: s.events}, nil
		s.rest()
		s.migrated("v2")
	}
}

func TestAnObjectThatCannotBeWrittenKeepsOnlyTheDefinitionWaiting(t *testing.T) {
	t.Parallel()
	s := newServer(t, definition(), 3)
	s.refuse["h001"] = errors.New("a webhook says no")
	if more, err := s.reconcile(); !more || err != nil {
		t.Fatalf("more: %v, %v; want it tried again", more, err)
	}
	s.wrote("list", `patch status h000 {"metadata":{"resourceVersion":RV}}`, `patch status h001 {"metadata":{"resourceVersion":RV}}`, `patch status h002 {"metadata":{"resourceVersion":RV}}`)
	_, err := s.reconcile()
	if err == nil || !strings.Contains(err.Error(), "hosts.x.io: 1 objects are left, among them ns/h001: store Host ns/h001 again: a webhook says no") {
		t.Errorf("error %v", err)
	}
	s.wrote(`patch status h001 {"metadata":{"resourceVersion":RV}}`)
	if len(s.definition().Annotations) > 0 {
		t.Error("all is said to be done")
	}
	s.refuse = nil
	s.rest()
	s.migrated("v2")
}

func TestWhereNothingCanBeWrittenAPageIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t, definition(), migration.PageSize+1)
	for i := range migration.PageSize + 1 {
		s.refuse[fmt.Sprintf("h%03d", i)] = errors.New("the converter is away")
	}
	for range 3 {
		s.calls = nil
		if _, err := s.reconcile(); err == nil || len(s.calls) != 1+migration.PageSize {
			t.Errorf("%d calls, error %v", len(s.calls), err)
		}
	}
	s.refuse = nil
	s.rest()
	s.migrated("v2")
}

func TestWhoIsGoneOrWrittenByOthersIsDone(t *testing.T) {
	t.Parallel()
	s := newServer(t, definition(), 2)
	of := schema.GroupResource{Group: "x.io", Resource: "hosts"}
	s.refuse["h000"], s.refuse["h001"] = apierrors.NewNotFound(of, "h000"), apierrors.NewConflict(of, "h001", errors.New("changed"))
	s.rest()
	s.migrated("v2")
}

func TestDefinitionsOfOthersAndThoseThatAreNotServedAreLeftAlone(t *testing.T) {
	t.Parallel()
	unserved, halfway, others := definition(), definition(), definition()
	unserved.Spec.Versions[2].Served = false
	halfway.Status.Conditions = nil
	for what, crd := range map[string]*apiextensionsv1.CustomResourceDefinition{"unserved": unserved, "halfway": halfway, "others": others} {
		s := newServer(t, crd, 1)
		if what == "others" {
			s.Definitions = []string{"boots.x.io"}
		}
		s.rest()
		s.wrote()
	}
}

func TestPhasesAreReadFromAFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"StorageVersionMigration":                       "StorageVersionMigration",
		"StorageVersionMigration, CleanupManagedFields": "StorageVersionMigration,CleanupManagedFields",
		"CleanupManagedFields,CleanupManagedFields":     "CleanupManagedFields",
		"All": "", "": "",
	} {
		var p Phases
		if err := p.Set(text); (err == nil) != (want != "") || p.String() != want {
			t.Errorf("%q: %s, %v; want %q", text, p.String(), err, want)
		}
	}
}
