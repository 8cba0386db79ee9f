// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

const (
	infra   = "infrastructure.test.io"
	isReady = clusterv1.ClusterClassVariablesReadyCondition
	isNewst = clusterv1.ClusterClassRefVersionsUpToDateCondition
)

// world is a management cluster with one class, its templates and extensions.
type world struct {
	*testing.T
	client.Client
	Reconciler
	writes  []string
	answers map[string]func(settings map[string]string) (string, error) // the variables in YAML, by handler
	asked   int
	// rejected are the handlers of rejected answers
	rejected []string
}

// Source implements Extensions.
func (*world) Source(extensions.ToRequests) source.Source { return nil }

// Reject implements Extensions.
func (w *world) Reject(_ any, handler string, _ hooksv1.RequestObject) {
	w.rejected = append(w.rejected, handler)
}

// CallExtension implements Extensions.
func (w *world) CallExtension(_ context.Context, _ any, obj metav1.Object, handler string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	w.asked++
	answer := w.answers[handler]
	if answer == nil || obj.GetName() != "class" {
		return errors.New("handler " + handler + " is not known")
	}
	text, err := answer(request.(*hooksv1.DiscoverVariablesRequest).Settings)
	if err == nil {
		response.(*hooksv1.DiscoverVariablesResponse).Variables = *builder.Parse[[]clusterv1.ClusterClassVariable](w.T, text)
	}
	return err
}

const spec = `
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.test.io/v1, kind: HostsTemplate, name: hosts}}
  controlPlane:
    templateRef: {apiVersion: infrastructure.test.io/v1, kind: PlaneTemplate, name: plane}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.test.io/v1, kind: HostTemplate, name: host}}
  workers:
    machineDeployments:
    - {class: a, bootstrap: {templateRef: {apiVersion: infrastructure.test.io/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: infrastructure.test.io/v1, kind: HostTemplate, name: host}}}
    machinePools:
    - {class: b, bootstrap: {templateRef: {apiVersion: infrastructure.test.io/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: infrastructure.test.io/v1, kind: PoolTemplate, name: pool}}}
  variables:
  - {name: z, required: true, schema: {openAPIV3Schema: {type: string}}}
  - {name: a, required: false, schema: {openAPIV3Schema: {type: string}}}
`

func newWorld(t *testing.T, text string, without ...string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), runtimev1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	class := builder.Parse[clusterv1.ClusterClass](t, text)
	class.Namespace, class.Name, class.UID, class.Generation = "ns", "class", "u", 3
	objects := []client.Object{class}
	for kind, name := range map[string]string{"HostsTemplate": "hosts", "PlaneTemplate": "plane", "HostTemplate": "host", "BootTemplate": "boot", "PoolTemplate": "pool"} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind) + "s." + infra, Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}}}
		if kind == "BootTemplate" {
			crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": "v1", "cluster.x-k8s.io/v1beta2": "v2"}
		}
		gvk := schema.GroupVersionKind{Group: infra, Version: "v1", Kind: kind}
		scheme.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
		template := &unstructured.Unstructured{}
		template.SetGroupVersionKind(gvk)
		template.SetNamespace("ns")
		template.SetName(name)
		if !slices.Contains(without, "definition of "+kind) {
			objects = append(objects, crd)
		}
		if !slices.Contains(without, kind) {
			objects = append(objects, template)
		}
	}
	w := &world{T: t}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(class).
		WithInterceptorFuncs(writes.Before(func(verb string, obj client.Object) error {
			w.writes = append(w.writes, verb+" "+obj.GetName())
			return nil
		})).Build()
	w.Reconciler = Reconciler{Deps: deps.Deps{Mgmt: w, Providers: provider.New(w, nil), Clock: testclock.NewFakeClock(time.Unix(1e9, 0)), Deprecated: true}, Extensions: w}
	return w
}

func (w *world) class() *clusterv1.ClusterClass {
	w.Helper()
	class := &clusterv1.ClusterClass{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: "ns", Name: "class"}, class); err != nil {
		w.Fatal(err)
	}
	return class
}

// reconcile calls the reconciler once, and returns the writes and the error.
func (w *world) reconcile() ([]string, error) {
	w.Helper()
	w.writes = nil
	_, err := w.Reconcile(w.Context(), w.class())
	slices.Sort(w.writes)
	return w.writes, err
}

// says fails unless a condition is as desired.
func (w *world) says(condition, want string) {
	w.Helper()
	c := conditions.Get(w.class(), condition)
	if c == nil {
		w.Fatalf("no condition %s", condition)
	}
	if got := strings.TrimSpace(string(c.Status) + " " + c.Reason + " " + c.Message); got != want {
		w.Errorf("condition %s: (-want +got)\n%s", condition, cmp.Diff(want, got))
	}
	if c.ObservedGeneration != 3 {
		w.Errorf("condition %s is about generation %d", condition, c.ObservedGeneration)
	}
}

const oneOld = "False RefVersionsNotUpToDate The following templateRefs are not using the latest apiVersion:\n* BootTemplate boot: current: v1, latest: v2"

func TestClassOwnsTemplatesAndReportsVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t, spec)
	writes, err := w.reconcile()
	if want := []string{"patch boot", "patch host", "patch hosts", "patch plane", "patch pool", "patch status of class"}; err != nil || !slices.Equal(writes, want) {
		t.Fatalf("error %v, writes (-want +got):\n%s", err, cmp.Diff(want, writes))
	}
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(schema.GroupVersionKind{Group: infra, Version: "v1", Kind: "PlaneTemplate"})
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "plane"}, template); err != nil {
		t.Fatal(err)
	}
	if refs := template.GetOwnerReferences(); len(refs) != 1 || refs[0].Controller != nil || !owner.Has(template, clusterv1.GroupVersion().WithKind("ClusterClass").GroupKind(), "class") {
		t.Errorf("owners %+v", refs)
	}
	w.says(isReady, "True VariablesReady")
	w.says(isNewst, oneOld)
	w.says(clusterv1.PausedCondition, "False NotPaused")
	class := w.class()
	if got := class.Status.Variables; len(got) != 2 || got[0].Name != "a" || got[1].Name != "z" || got[0].Definitions[0].From != "inline" || class.Status.ObservedGeneration != 3 {
		t.Errorf("status %+v", class.Status)
	}
	message := strings.TrimPrefix(oneOld, "False RefVersionsNotUpToDate ")
	old := []string{"RefVersionsUpToDate False Warning OutdatedRefVersions: " + message, "VariablesReconciled True"}
	if diff := cmp.Diff(old, builder.Deprecated(class.Status.Deprecated.V1Beta1.Conditions)); diff != "" {
		t.Errorf("conditions for clients of v1beta1 (-want +got):\n%s", diff)
	}
	if writes, err := w.reconcile(); err != nil || len(writes) > 0 || w.asked > 0 {
		t.Errorf("again: error %v, writes %q", err, writes)
	}
}

// TestReconcileReportsInvalidTemplate also checks that one template does not delay
// the others.
func TestReconcileReportsInvalidTemplate(t *testing.T) {
	t.Parallel()
	const missing = "Unknown InternalError spec.workers.machinePools[b].infrastructure.templateRef: "
	tests := map[string]struct {
		without, spec, want string
		terminal            bool
	}{
		"missing":        {without: "PoolTemplate", want: missing + "there is no PoolTemplate ns/pool: create it, or correct the reference", terminal: true},
		"no such kind":   {without: "definition of PoolTemplate", want: missing + "kind PoolTemplate.infrastructure.test.io: there is no CRD pooltemplates.infrastructure.test.io: install the provider that brings it, or correct apiGroup and kind"},
		"no provider's":  {spec: strings.ReplaceAll(spec, "{apiVersion: infrastructure.test.io/v1, kind: PoolTemplate, name: pool}", "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, name: pool}"), want: missing + "kind Machine.cluster.x-k8s.io: group cluster.x-k8s.io is Cluster API's own, and not a provider's", terminal: true},
		"all but one ok": {spec: strings.ReplaceAll(spec, "name: pool}", "name: other}"), want: missing + "there is no PoolTemplate ns/other: create it, or correct the reference", terminal: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.spec == "" {
				tc.spec = spec
			}
			w := newWorld(t, tc.spec, tc.without)
			writes, err := w.reconcile()
			if err == nil || errors.Is(err, reconcile.TerminalError(nil)) != tc.terminal {
				t.Errorf("error %v, want one that is tried again: %v", err, !tc.terminal)
			}
			if want := []string{"patch boot", "patch host", "patch hosts", "patch plane", "patch status of class"}; !slices.Equal(writes, want) {
				t.Errorf("writes (-want +got):\n%s", cmp.Diff(want, writes))
			}
			w.says(isNewst, tc.want)
			w.says(isReady, "True VariablesReady")
			if got := w.class().Status.ObservedGeneration; got != 0 {
				t.Errorf("observes generation %d", got)
			}
		})
	}
}

// external is a class with two patches that define variables.
const external = spec + `
  patches:
  - {name: p, external: {discoverVariablesExtension: vars.x, settings: {of: patch}}}
  - {name: q, external: {generatePatchesExtension: generate.x}}
  - {name: r, external: {discoverVariablesExtension: more.y}}
`

func says(text string) func(map[string]string) (string, error) {
	return func(map[string]string) (string, error) { return text, nil }
}

func TestExtensionsDefineVariables(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		vars, more      func(map[string]string) (string, error)
		ready, variable string // what is reported, and the variables with their sources
	}{
		"both answer": {
			vars: func(settings map[string]string) (string, error) {
				return "[{name: " + settings["of"] + ", required: true, schema: {openAPIV3Schema: {type: integer}}}]", nil
			},
			more:  says("[{name: a, required: false, schema: {openAPIV3Schema: {type: string, uniqueItems: false}}}]"),
			ready: "True VariablesReady", variable: "a: inline r; patch: p; z: inline"},
		"none": {vars: says("[]"), more: says("[]"), ready: "True VariablesReady", variable: "a: inline; z: inline"},
		"one is down": {
			vars:     func(map[string]string) (string, error) { return "", errors.New("connection refused") },
			more:     says("[]"),
			ready:    `False VariableDiscoveryFailed VariableDiscovery failed: patch "p": connection refused`,
			variable: "old: inline"},
		"one answers rubbish": {
			vars: says("[]"), more: says("[{name: a.b, required: true, schema: {openAPIV3Schema: {type: string}}}, {name: c, required: true, schema: {openAPIV3Schema: {type: file}}}]"),
			ready:    `False VariableDiscoveryFailed VariableDiscovery failed: patch "r": handler "more.y" of hook DiscoverVariables defines variables that cannot be used; correct the extension: [variables[0].name: Invalid value: "a.b": must not contain a dot, which separates a variable from its fields, variables[c].schema.openAPIV3Schema.type: Unsupported value: "file": supported values: "array", "boolean", "integer", "number", "object", "string"]`,
			variable: "old: inline"},
		"they disagree": {
			vars:     says("[{name: b, required: true, schema: {openAPIV3Schema: {type: string}}}]"),
			more:     says("[{name: b, required: false, schema: {openAPIV3Schema: {type: string}}}, {name: a, required: true, schema: {openAPIV3Schema: {type: string}}}]"),
			ready:    "False VariableDiscoveryFailed VariableDiscovery failed: the following variables have conflicting schemas: a,b",
			variable: "a!: inline r; b!: p r; z: inline"},
		"one is long": {
			vars: says("[]"), more: func(map[string]string) (string, error) { return "", errors.New(strings.Repeat("é", 5000)) },
			ready:    `False VariableDiscoveryFailed VariableDiscovery failed: patch "r": ` + strings.Repeat("é", 2028) + "…",
			variable: "old: inline"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, external+"status: {variables: [{name: old, definitions: [{from: inline, required: true, schema: {openAPIV3Schema: {type: string}}}]}]}")
			w.answers = map[string]func(map[string]string) (string, error){"vars.x": tc.vars, "more.y": tc.more}
			_, err := w.reconcile()
			w.says(isReady, tc.ready)
			if (len(w.rejected) == 0) != strings.HasPrefix(tc.ready, "True") {
				t.Errorf("rejects the answers of %q", w.rejected)
			}
			w.says(isNewst, oneOld)
			class, ready := w.class(), strings.HasPrefix(tc.ready, "True")
			if (err == nil) != ready || (class.Status.ObservedGeneration == 3) != ready {
				t.Errorf("error %v, observes generation %d", err, class.Status.ObservedGeneration)
			}
			if got := sources(class); got != tc.variable {
				t.Errorf("variables %q, want %q", got, tc.variable)
			}
			if writes, _ := w.reconcile(); len(writes) > 0 {
				t.Errorf("writes again: %q", writes)
			}
		})
	}
}

// sources lists variables with their definers.
func sources(class *clusterv1.ClusterClass) string {
	var all []string
	for _, v := range class.Status.Variables {
		text := v.Name
		if v.DefinitionsConflict != nil && *v.DefinitionsConflict {
			text += "!"
		}
		text += ":"
		for _, d := range v.Definitions {
			text += " " + d.From
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// TestReconcileReportsUnadmittedRules has a class that was created while admission
// did not run.
func TestReconcileReportsUnadmittedRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, spec+"  - {name: b, required: true, schema: {openAPIV3Schema: {type: array, items: {type: string, x-kubernetes-validations: [{rule: 'self =='}]}}}}\n")
	if _, err := w.reconcile(); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error %v, want one that only a change of the class corrects", err)
	}
	if c := conditions.Get(w.class(), isReady); c == nil || !strings.HasPrefix(c.Message, "VariableDiscovery failed: spec.variables[b].schema.openAPIV3Schema.items.x-kubernetes-validations[0].rule: Invalid value: \"self ==\"") {
		t.Errorf("condition %+v", c)
	}
}

// TestDefinitionsAreCheckedOnce matters because each event of a template triggers a
// reconcile.
func TestDefinitionsAreCheckedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external)
	answers := "[{name: b, required: true, schema: {openAPIV3Schema: {type: string}}}]"
	w.answers = map[string]func(map[string]string) (string, error){"vars.x": func(map[string]string) (string, error) { return answers, nil }, "more.y": says("[]")}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	good := w.checked.Get(w.class())
	answers = "[{name: b, required: true, schema: {openAPIV3Schema: {type: file}}}]"
	if _, err := w.reconcile(); err == nil || w.checked.Get(w.class()) != good {
		t.Errorf("another answer is not checked: %v", err)
	}
	answers = "[{name: b, required: true, schema: {openAPIV3Schema: {type: integer}}}]"
	if _, err := w.reconcile(); err != nil || w.checked.Get(w.class()) == good {
		t.Errorf("a good answer is not remembered: %v", err)
	}
	w.Forget(client.ObjectKeyFromObject(w.class()))
	if w.checked.Get(w.class()) != ([32]byte{}) {
		t.Error("a class that has gone is remembered")
	}
}

// TestAStartTakesNothingBack covers the time in which extensions cannot be called
// because they are not registered yet.
func TestAStartTakesNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external)
	starting := func(map[string]string) (string, error) {
		return "", fmt.Errorf("call: %w", extensions.ErrNotReady)
	}
	w.answers = map[string]func(map[string]string) (string, error){"vars.x": starting, "more.y": says("[]")}
	if _, err := w.reconcile(); err == nil {
		t.Error("a new class is ready")
	}
	w.says(isReady, `False VariableDiscoveryFailed VariableDiscovery failed: patch "p": call: runtime extensions have not been read yet`)
	w.answers["vars.x"] = says("[]")
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.answers["vars.x"] = starting
	if writes, err := w.reconcile(); err == nil || len(writes) > 0 {
		t.Errorf("writes %q, error %v; want none, and to be called again", writes, err)
	}
	w.says(isReady, "True VariablesReady")
}

func TestAPausedClassStaysAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "metadata: {annotations: {cluster.x-k8s.io/paused: ''}}\n"+external)
	writes, err := w.reconcile()
	if want := []string{"patch status of class"}; err != nil || !slices.Equal(writes, want) || w.asked > 0 {
		t.Errorf("error %v, writes %q, asked %d times", err, writes, w.asked)
	}
	if !conditions.IsTrue(w.class(), clusterv1.PausedCondition) {
		t.Errorf("conditions %+v", w.class().Status.Conditions)
	}
}

func TestMappersTriggerClasses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, external)
	template := func(kind, name, namespace string) client.Object {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: infra, Version: "v2", Kind: kind})
		u.SetName(name)
		u.SetNamespace(namespace)
		return u
	}
	tests := map[string]struct {
		got  []reconcile.Request
		want bool
	}{
		"by its template, in any version": {w.ofTemplate(t.Context(), template("BootTemplate", "boot", "ns")), true},
		"by another of the kind":          {w.ofTemplate(t.Context(), template("BootTemplate", "boot2", "ns")), false},
		"by another kind of the name":     {w.ofTemplate(t.Context(), template("HostTemplate", "boot", "ns")), false},
		"in another namespace":            {w.ofTemplate(t.Context(), template("BootTemplate", "boot", "other")), false},
		"by an extension that it asks":    {w.ofExtension(t.Context(), "y"), true},
		"by one that it does not ask":     {w.ofExtension(t.Context(), "z"), false},
		"by one that only ends so":        {w.ofExtension(t.Context(), "ars.x"), false},
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if tc := tests[name]; (len(tc.got) > 0) != tc.want {
			t.Errorf("%s: %v", name, tc.got)
		}
	}
}
