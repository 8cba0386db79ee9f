// SPDX-License-Identifier: Apache-2.0

package listing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/listing"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// open returns the objects of a new cluster, and some more.
func open(t *testing.T, more ...objects.Object) *objects.Store {
	t.Helper()
	s, err := objects.Open(objects.Options{Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range more {
		if err := s.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// options has selectors in the form of a query.
func options(t *testing.T, byLabel, byField string) *internalversion.ListOptions {
	t.Helper()
	o := &internalversion.ListOptions{}
	var err error
	if o.LabelSelector, err = labels.Parse(byLabel); err != nil {
		t.Fatal(err)
	}
	if o.FieldSelector, err = fields.ParseSelector(byField); err != nil {
		t.Fatal(err)
	}
	return o
}

// keys lists entries by namespace and name.
func keys(entries []*store.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, strings.TrimPrefix(e.Key.Namespace+"/"+e.Key.Name, "/"))
	}
	return out
}

func podOn(name, node string, with ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
	}
	for _, f := range with {
		f(p)
	}
	return p
}

func event(name string, with func(*corev1.Event)) *corev1.Event {
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Reason: "Started", Type: "Normal",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: name},
	}
	with(e)
	return e
}

func selectable(t *testing.T) *objects.Store {
	t.Helper()
	return open(t,
		podOn("a", "n1", func(p *corev1.Pod) { p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "10.0.0.1" }),
		podOn("b", "n2", func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.RestartPolicy = true, corev1.RestartPolicyNever }),
		podOn("c", "", func(p *corev1.Pod) { p.Namespace, p.Labels = "kube-system", nil }),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{ProviderID: "x://1", Unschedulable: true}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}, Spec: corev1.NodeSpec{ProviderID: "x://2"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIP: "None"}},
		event("from-source", func(e *corev1.Event) { e.Source.Component, e.ReportingController = "kubelet", "other" }),
		event("from-controller", func(e *corev1.Event) { e.ReportingController = "kubelet" }),
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "done"}, Status: batchv1.JobStatus{Succeeded: 1}, Spec: jobSpec()},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}, Spec: jobSpec()},
	)
}

func jobSpec() batchv1.JobSpec {
	return batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "v1"}},
	}}}
}

// The fields are those that the field label conversions of Kubernetes have, and their
// values those of its registries.
func TestSelectionByLabelsAndFields(t *testing.T) {
	t.Parallel()
	all := selectable(t)
	for name, tc := range map[string]struct {
		resource, namespace, name string
		byLabel, byField          string
		want                      []string
	}{
		"everything":                     {resource: "pods", want: []string{"default/a", "default/b", "kube-system/c"}},
		"a namespace":                    {resource: "pods", namespace: "kube-system", want: []string{"kube-system/c"}},
		"no such namespace":              {resource: "pods", namespace: "nope"},
		"a name of the path":             {resource: "pods", namespace: "default", name: "b", want: []string{"default/b"}},
		"the namespace is for objects":   {resource: "nodes", namespace: "default", want: []string{"n1", "n2"}},
		"a label":                        {resource: "pods", byLabel: "app=a", want: []string{"default/a"}},
		"another value of a label":       {resource: "pods", byLabel: "app!=a", want: []string{"default/b", "kube-system/c"}},
		"no label":                       {resource: "pods", byLabel: "!app", want: []string{"kube-system/c"}},
		"some values of a label":         {resource: "pods", byLabel: "app in (b,x)", want: []string{"default/b"}},
		"none of some values":            {resource: "pods", byLabel: "app,app notin (b,x)", want: []string{"default/a"}},
		"two labels":                     {resource: "pods", byLabel: "app=a,app=b"},
		"metadata.name":                  {resource: "pods", byField: "metadata.name=a", want: []string{"default/a"}},
		"metadata.name, double sign":     {resource: "pods", byField: "metadata.name==a", want: []string{"default/a"}},
		"another metadata.name":          {resource: "pods", byField: "metadata.name!=a", want: []string{"default/b", "kube-system/c"}},
		"metadata.namespace":             {resource: "pods", byField: "metadata.namespace=kube-system", want: []string{"kube-system/c"}},
		"a node":                         {resource: "pods", byField: "spec.nodeName=n1", want: []string{"default/a"}},
		"no node":                        {resource: "pods", byField: "spec.nodeName=", want: []string{"kube-system/c"}},
		"any node":                       {resource: "pods", byField: "spec.nodeName!=", want: []string{"default/a", "default/b"}},
		"a phase":                        {resource: "pods", byField: "status.phase=Running", want: []string{"default/a"}},
		"a default phase":                {resource: "pods", byField: "status.phase=Pending", want: []string{"default/b", "kube-system/c"}},
		"an address":                     {resource: "pods", byField: "status.podIP=10.0.0.1", want: []string{"default/a"}},
		"a restart policy":               {resource: "pods", byField: "spec.restartPolicy=Never", want: []string{"default/b"}},
		"the host's network":             {resource: "pods", byField: "spec.hostNetwork=true", want: []string{"default/b"}},
		"not the host's network":         {resource: "pods", byField: "spec.hostNetwork=false", want: []string{"default/a", "kube-system/c"}},
		"fields and labels":              {resource: "pods", byLabel: "app", byField: "spec.nodeName!=n1,status.phase=Pending", want: []string{"default/b"}},
		"the value of another field":     {resource: "pods", byField: "spec.schedulerName=n1"},
		"a value with an escape":         {resource: "pods", byField: `spec.nodeName=<n1>`},
		"unschedulable":                  {resource: "nodes", byField: "spec.unschedulable=true", want: []string{"n1"}},
		"schedulable":                    {resource: "nodes", byField: "spec.unschedulable=false", want: []string{"n2"}},
		"a provider ID":                  {resource: "nodes", byField: "spec.providerID=x://2", want: []string{"n2"}},
		"a default type":                 {resource: "secrets", byField: "type=Opaque", want: []string{"default/s"}},
		"a cluster IP":                   {resource: "services", namespace: "default", byField: "spec.clusterIP=None", want: []string{"default/headless"}},
		"a component of either field":    {resource: "events", byField: "source=kubelet", want: []string{"default/from-controller", "default/from-source"}},
		"a reporting component":          {resource: "events", byField: "reportingComponent=kubelet", want: []string{"default/from-controller"}},
		"an involved object":             {resource: "events", byField: "involvedObject.kind=Pod,involvedObject.name=from-source", want: []string{"default/from-source"}},
		"a Job that has succeeded":       {resource: "jobs", byField: "status.successful=1", want: []string{"default/done"}},
		"a Job that has not succeeded":   {resource: "jobs", byField: "status.successful=0", want: []string{"default/new"}},
		"the namespace of cluster roles": {resource: "clusterroles", byLabel: "x", byField: "metadata.namespace="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sel, err := listing.Select(kindOf(t, tc.resource), tc.namespace, tc.name, options(t, tc.byLabel, tc.byField))
			if err != nil {
				t.Fatal(err)
			}
			entries, version := sel.Latest(all.Entries())
			if diff := cmp.Diff(tc.want, keys(entries)); diff != "" || version != all.Entries().Version() {
				t.Errorf("at version %d (-want +got):\n%s", version, diff)
			}
		})
	}
}

func TestEventsAreSelectedByTheFieldsOfTheirGroup(t *testing.T) {
	t.Parallel()
	all := selectable(t)
	k := kinds.Everywhere().ByResource(schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"})
	for byField, want := range map[string][]string{
		"regarding.name=from-source":  {"default/from-source"},
		"reportingController=kubelet": {"default/from-controller"},
		"reason=Started,type!=Normal": nil,
	} {
		sel, err := listing.Select(k, "", "", options(t, "", byField))
		if err != nil {
			t.Fatal(err)
		}
		entries, _ := sel.Latest(all.Entries())
		if diff := cmp.Diff(want, keys(entries)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", byField, diff)
		}
	}
}

// The messages are those of API servers: of the conversion of a kind that has fields of its
// own, and of the conversion of all others.
func TestSelectRefusesOtherFields(t *testing.T) {
	t.Parallel()
	const unsupported, unknown = "field label not supported: %s", `%q is not a known field selector: only "metadata.name", "metadata.namespace"`
	for _, tc := range []struct{ resource, field, message string }{
		{"pods", "spec.hostname", unsupported},
		{"pods", "metadata.uid", unsupported},
		{"nodes", "spec.podCIDR", unsupported},
		{"nodes", "metadata.namespace", unsupported},
		{"namespaces", "metadata.namespace", unsupported},
		{"certificatesigningrequests", "status.certificate", unsupported},
		{"resourceslices", "spec.pool", unsupported},
		{"configmaps", "data", unknown},
		{"replicasets", "status.replicas", unknown},
		{"deployments", "spec.replicas", unknown},
		{"clusterroles", "rules", unknown},
	} {
		_, err := listing.Select(kindOf(t, tc.resource), "", "", options(t, "", tc.field+"=x"))
		if want := fmt.Sprintf(tc.message, tc.field); !apierrors.IsBadRequest(err) || err.Error() != want {
			t.Errorf("%s by %s: got %v, want %s", tc.resource, tc.field, err, want)
		}
	}
}

func TestMatchesIgnoresNothingAndOtherNamespaces(t *testing.T) {
	t.Parallel()
	sel, err := listing.Select(kindOf(t, "pods"), "default", "", &internalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(namespace, raw string) *store.Entry {
		return &store.Entry{Key: store.Key{Namespace: namespace, Name: "p"}, Raw: []byte(raw)}
	}
	got := []bool{sel.Matches(nil), sel.Matches(entry("other", "{}")), sel.Matches(entry("default", "{}"))}
	if !slices.Equal(got, []bool{false, false, true}) {
		t.Errorf("got %v", got)
	}
	byNode, err := listing.Select(kindOf(t, "pods"), "", "", options(t, "", "spec.nodeName!=n"))
	if err != nil {
		t.Fatal(err)
	}
	if !byNode.Matches(entry("default", "no JSON")) {
		t.Error("an entry that cannot be read has no fields, and none of them is n")
	}
}

// widgets is a definition whose objects can be selected by one field.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.size}]
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, color: {type: string}}}}}}
`

// withWidgets is a cluster with the definition, and its kind.
func withWidgets(t *testing.T) (*objects.Store, *kinds.Kind) {
	t.Helper()
	all := open(t)
	create(t, all, kindOf(t, "customresourcedefinitions"), widgets)
	k := all.Kinds().ByResource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
	if k == nil {
		t.Fatal("the kind is not served")
	}
	for name, size := range map[string]int{"small": 1, "large": 10} {
		create(t, all, k, fmt.Sprintf("{apiVersion: example.com/v1, kind: Widget, metadata: {name: %s}, spec: {size: %d, color: red}}", name, size))
	}
	return all, k
}

func create(t *testing.T, all *objects.Store, k *kinds.Kind, text string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := objects.Receive(k, raw, metav1.FieldValidationStrict)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.Create(k, "default", u, objects.Writing{}); err != nil {
		t.Fatal(err)
	}
}

func TestSelectionOfDefinedKinds(t *testing.T) {
	t.Parallel()
	all, k := withWidgets(t)
	for byField, want := range map[string][]string{
		"spec.size=10":               {"default/large"},
		"spec.size!=10":              {"default/small"},
		"metadata.namespace=default": {"default/large", "default/small"},
	} {
		sel, err := listing.Select(k, "", "", options(t, "", byField))
		if err != nil {
			t.Fatal(err)
		}
		entries, _ := sel.Latest(all.Entries())
		if diff := cmp.Diff(want, keys(entries)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", byField, diff)
		}
	}
	_, err := listing.Select(k, "", "", options(t, "", "spec.color=red"))
	if !apierrors.IsBadRequest(err) || err.Error() != "field label not supported: spec.color" {
		t.Errorf("by a field that is not selectable: %v", err)
	}
}
