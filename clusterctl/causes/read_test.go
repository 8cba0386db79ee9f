// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	obj := &unstructured.Unstructured{}
	if err == nil {
		err = obj.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestReadFindsReferencesOfEachKind(t *testing.T) {
	t.Parallel()
	const infra, core = "infrastructure.example.com", "cluster.x-k8s.io"
	for name, tc := range map[string]struct {
		text string
		want []Ref
	}{
		"Cluster": {
			"{kind: Cluster, spec: {infrastructureRef: {apiGroup: infrastructure.example.com, kind: FakeCluster, name: i}, controlPlaneRef: {apiGroup: x.io, kind: Plane, name: p}}}",
			[]Ref{{fieldInfrastructure, Key{infra, "FakeCluster", "fleet", "i"}}, {fieldControlPlane, Key{"x.io", "Plane", "fleet", "p"}}},
		},
		"Cluster of a class":                    {"{kind: Cluster, spec: {topology: {classRef: {name: k}}}}", []Ref{{fieldClass, Key{core, "ClusterClass", "fleet", "k"}}}},
		"Cluster of a class in another place":   {"{kind: Cluster, spec: {topology: {classRef: {name: k, namespace: other}}}}", []Ref{{fieldClass, Key{core, "ClusterClass", "other", "k"}}}},
		"Cluster without a class":               {"{kind: Cluster, spec: {topology: {}}}", nil},
		"Machine with bootstrap data":           {"{kind: Machine, spec: {bootstrap: {dataSecretName: s}}}", nil},
		"Machine":                               {"{kind: Machine, spec: {bootstrap: {configRef: {apiGroup: b.io, kind: Config, name: c}}}}", []Ref{{fieldBootstrap, Key{"b.io", "Config", "fleet", "c"}}}},
		"MachineDeployment":                     {"{kind: MachineDeployment, spec: {template: {spec: {infrastructureRef: {apiGroup: b.io, kind: HostTemplate, name: c}}}}}", []Ref{{fieldTemplateInfrastructure, Key{"b.io", "HostTemplate", "fleet", "c"}}}},
		"control plane":                         {"{kind: Plane, spec: {machineTemplate: {spec: {infrastructureRef: {apiGroup: b.io, kind: HostTemplate, name: c}}}}}", []Ref{{fieldMachineTemplate, Key{"b.io", "HostTemplate", "fleet", "c"}}}},
		"a reference without a name":            {"{kind: Machine, spec: {infrastructureRef: {apiGroup: b.io, kind: Host}}}", nil},
		"a reference that is no object":         {"{kind: Machine, spec: {infrastructureRef: host, bootstrap: [1]}}", nil},
		"ClusterClass":                          {"{kind: ClusterClass, spec: {infrastructure: {templateRef: {apiVersion: b.io/v1, kind: FakeClusterTemplate, name: c}}}}", []Ref{{"spec.infrastructure.templateRef", Key{"b.io", "FakeClusterTemplate", "fleet", "c"}}}},
		"ClusterResourceSetBinding":             {"{kind: ClusterResourceSetBinding, spec: {bindings: [{clusterResourceSetName: a}, {clusterResourceSetName: b}, 1]}}", []Ref{{fieldSets, Key{core, "ClusterResourceSet", "fleet", "a"}}, {fieldSets, Key{core, "ClusterResourceSet", "fleet", "b"}}}},
		"another kind with a field of bindings": {"{kind: Other, spec: {bindings: [{clusterResourceSetName: a}]}}", nil},
	} {
		obj := parsed(t, tc.text)
		obj.SetAPIVersion(core + "/v1beta2")
		obj.SetNamespace("fleet")
		if diff := cmp.Diff(tc.want, Read(obj).Refs); diff != "" {
			t.Errorf("%s: references (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadFindsWhatStopsAnObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want Object
	}{
		"pause of the spec":         {"{spec: {paused: true}, metadata: {annotations: {cluster.x-k8s.io/paused: x}}}", Object{Paused: "spec.paused"}},
		"pause by annotation":       {"{metadata: {annotations: {cluster.x-k8s.io/paused: ''}}}", Object{Paused: "annotation cluster.x-k8s.io/paused"}},
		"no pause":                  {"{spec: {paused: false}}", Object{}},
		"a pause of another type":   {"{spec: {paused: 'true'}}", Object{}},
		"hooks":                     {"{metadata: {annotations: {pre-terminate.delete.hook.machine.cluster.x-k8s.io/b: '', pre-drain.delete.hook.machine.cluster.x-k8s.io/a: x, other.io/hook: x}}}", Object{Hooks: []string{"pre-drain.delete.hook.machine.cluster.x-k8s.io/a", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/b"}}},
		"owners":                    {"{metadata: {ownerReferences: [{uid: a}, {uid: b}]}}", Object{Owners: []string{"a", "b"}}},
		"finalizers":                {"{metadata: {finalizers: [a, b]}}", Object{Finalizers: []string{"a", "b"}}},
		"provisioned, no fields":    {"{status: {initialization: {provisioned: true}}}", Object{Unset: []string{fieldEndpoint, fieldProviderID}}},
		"ready by contract v1beta1": {"{status: {ready: true}, spec: {providerID: x}}", Object{Unset: []string{fieldEndpoint}}},
		"all fields":                {"{status: {ready: true}, spec: {providerID: x, controlPlaneEndpoint: {host: h, port: 6443}}}", Object{}},
		"no port":                   {"{status: {ready: true}, spec: {providerID: x, controlPlaneEndpoint: {host: h}}}", Object{Unset: []string{fieldEndpoint}}},
		"a list as provider ID":     {"{status: {ready: true}, spec: {providerID: [x], controlPlaneEndpoint: {host: h, port: 6443}}}", Object{Unset: []string{fieldProviderID}}},
		"data without a Secret":     {"{status: {initialization: {dataSecretCreated: true}}}", Object{Unset: []string{fieldSecret}}},
		"data with a Secret":        {"{status: {initialization: {dataSecretCreated: true}, dataSecretName: s}}", Object{}},
		"managed externally":        {"{metadata: {annotations: {cluster.x-k8s.io/managed-by: terraform}}}", Object{Manager: "terraform"}},
		"managed and provisioned":   {"{metadata: {annotations: {cluster.x-k8s.io/managed-by: terraform}}, status: {ready: true}, spec: {providerID: x, controlPlaneEndpoint: {host: h, port: 1}}}", Object{}},
		"not provisioned":           {"{status: {initialization: {provisioned: false}}}", Object{}},
		"ready, not provisioned": {"{status: {conditions: [{type: Ready, status: 'True'}]}}", Object{
			Conditions: []metav1.Condition{{Type: "Ready", Status: "True"}}, Unset: []string{fieldDone},
		}},
		"available and initialized by v1beta1": {"{status: {initialized: true, conditions: [{type: Available, status: 'True'}]}}", Object{
			Conditions: []metav1.Condition{{Type: "Available", Status: "True"}},
		}},
		"conditions": {"{status: {conditions: [{type: Ready, status: 'False', reason: R, message: m}]}}", Object{Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "R", Message: "m"}}}},
	} {
		obj := parsed(t, "{apiVersion: x.io/v1, kind: Host}")
		for field, value := range parsed(t, "{apiVersion: x.io/v1, kind: Host, "+tc.text[1:]).Object {
			obj.Object[field] = value
		}
		obj.SetName("h")
		tc.want.Key = Key{"x.io", "Host", "", "h"}
		tc.want.Untouched = len(tc.want.Finalizers) == 0 && obj.Object["status"] == nil
		if diff := cmp.Diff(tc.want, Read(obj)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadReportsConditionsThatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"none", "[1]", "[{type: 1}]"} {
		got := Read(parsed(t, "{apiVersion: x.io/v1, kind: Host, metadata: {name: h, creationTimestamp: '2026-01-02T12:00:00Z'}, status: {conditions: "+text+"}}")).Conditions
		if len(got) != 1 || got[0].Type != "Ready" || got[0].Status != metav1.ConditionUnknown || got[0].Message == "" || !got[0].LastTransitionTime.Equal(&noon) {
			t.Errorf("conditions %s: %+v", text, got)
		}
	}
}

func TestReadFindsResourcesOfSetAndBinding(t *testing.T) {
	t.Parallel()
	set := Read(parsed(t, "{apiVersion: addons.cluster.x-k8s.io/v1beta2, kind: ClusterResourceSet, metadata: {name: s}, spec: {resources: [{kind: Secret, name: a}, {kind: ConfigMap, name: b}]}}"))
	if diff := cmp.Diff([]string{"Secret a", "ConfigMap b"}, set.Resources); diff != "" {
		t.Errorf("of the set (-want +got):\n%s", diff)
	}
	binding := Read(parsed(t, `{apiVersion: addons.cluster.x-k8s.io/v1beta2, kind: ClusterResourceSetBinding, metadata: {name: c}, spec: {bindings: [
{clusterResourceSetName: s, resources: [{kind: Secret, name: a, applied: true}, {kind: ConfigMap, name: b, applied: false}, {kind: Secret, name: c}]}, {clusterResourceSetName: t, resources: [{kind: Secret, name: d, applied: true}]}]}}`))
	if diff := cmp.Diff([]string{"s Secret a", "t Secret d"}, binding.Resources); diff != "" {
		t.Errorf("of the binding (-want +got):\n%s", diff)
	}
}

func TestReadPodNamesTheContainerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	failed := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers are not ready"}
	waits := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Image: "i", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"a container":          {corev1.PodStatus{Conditions: []corev1.PodCondition{failed}, ContainerStatuses: []corev1.ContainerStatus{waits("a", "ErrImagePull", "not found")}}, "ErrImagePull: container a, image i: not found"},
		"an init container":    {corev1.PodStatus{Conditions: []corev1.PodCondition{failed}, InitContainerStatuses: []corev1.ContainerStatus{waits("b", "CrashLoopBackOff", "back-off")}, ContainerStatuses: []corev1.ContainerStatus{waits("a", "PodInitializing", "")}}, "CrashLoopBackOff: container b, image i: back-off"},
		"no container":         {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no node"}}}, "Unschedulable: no node"},
		"a container is ready": {corev1.PodStatus{Conditions: []corev1.PodCondition{failed}, ContainerStatuses: []corev1.ContainerStatus{{Name: "a"}}}, "ContainersNotReady: containers are not ready"},
		"all is well":          {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, ContainerStatuses: []corev1.ContainerStatus{waits("a", "R", "m")}}, ""},
	} {
		o := ReadPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}, Status: tc.status}, "deployment")
		got := ""
		for _, c := range o.Conditions {
			got += c.Reason + ": " + c.Message
		}
		if got != tc.want || o.Owners[0] != "deployment" {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestReadQuotaNamesLimitsThatAreUsedUp(t *testing.T) {
	t.Parallel()
	amounts := func(a, b, c string) corev1.ResourceList {
		list := corev1.ResourceList{"count/machines.cluster.x-k8s.io": resource.MustParse(a), "cpu": resource.MustParse(b)}
		if c != "" {
			list["memory"] = resource.MustParse(c)
		}
		return list
	}
	quota := &corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Hard: amounts("3", "1", "1Gi"), Used: amounts("3", "999m", "")}}
	if diff := cmp.Diff([]string{"count/machines.cluster.x-k8s.io"}, ReadQuota(quota).Exhausted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	quota.Status.Used = amounts("4", "1000m", "0")
	if diff := cmp.Diff([]string{"count/machines.cluster.x-k8s.io", "cpu"}, ReadQuota(quota).Exhausted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWarnKeepsTheLastOfEachReason(t *testing.T) {
	t.Parallel()
	at := func(minutes time.Duration) metav1.Time { return metav1.NewTime(noon.Add(minutes * time.Minute)) }
	o := &Object{}
	for _, w := range []Warning{{"A", "second", at(2)}, {"B", "only", at(0)}, {"A", "first", at(1)}, {"A", "last", at(3)}} {
		o.Warn(w)
	}
	if diff := cmp.Diff([]Warning{{"A", "last", at(3)}, {"B", "only", at(0)}}, o.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventTimeIsTheLast(t *testing.T) {
	t.Parallel()
	at := func(minutes time.Duration) metav1.Time { return metav1.NewTime(noon.Add(minutes * time.Minute)) }
	created := metav1.ObjectMeta{CreationTimestamp: at(1)}
	for name, e := range map[string]*corev1.Event{
		"the last of several":   {ObjectMeta: created, LastTimestamp: at(5), EventTime: metav1.NewMicroTime(at(2).Time)},
		"a series":              {ObjectMeta: created, EventTime: metav1.NewMicroTime(at(2).Time), Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(at(5).Time)}},
		"a series not yet seen": {ObjectMeta: created, EventTime: metav1.NewMicroTime(at(5).Time), Series: &corev1.EventSeries{}},
		"one of the newer API":  {ObjectMeta: created, EventTime: metav1.NewMicroTime(at(5).Time)},
		"one without a time":    {ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(5)}},
	} {
		if got := EventTime(e); !got.Equal(at(5).Time) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestWantedLeavesOutWhatHasNothingToReport(t *testing.T) {
	t.Parallel()
	ready := []metav1.Condition{condition("InfrastructureReady", "True", "", "", 0), condition("BootstrapConfigReady", "False", "", "", 0)}
	for name, tc := range map[string]struct {
		object Object
		field  string
		want   bool
	}{
		"infrastructure of a Machine that is ready":   {Object{Key: Key{Kind: "Machine"}, Conditions: ready}, fieldInfrastructure, false},
		"bootstrap of one that is not":                {Object{Key: Key{Kind: "Machine"}, Conditions: ready}, fieldBootstrap, true},
		"infrastructure of one that is being deleted": {Object{Key: Key{Kind: "Machine"}, Conditions: ready, Deleted: &noon}, fieldInfrastructure, true},
		"infrastructure of a Cluster":                 {Object{Key: Key{Kind: "Cluster"}, Conditions: ready}, fieldInfrastructure, true},
		"a class":                                     {Object{Key: Key{Kind: "Cluster"}}, fieldClass, false},
		"bootstrap of one whose infrastructure is not": {Object{Key: Key{Kind: "Machine"}, Conditions: []metav1.Condition{
			condition("BootstrapConfigReady", "True", "", "", 0), condition("InfrastructureReady", "False", "", "", 0)}}, fieldBootstrap, true},
		"infrastructure of one without a Node": {Object{Key: Key{Kind: "Machine"}, Conditions: append(slices.Clone(ready), condition("NodeHealthy", "Unknown", "InspectionFailed", "", 0))}, fieldInfrastructure, true},
	} {
		if got := tc.object.Wanted(Ref{Field: tc.field}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
