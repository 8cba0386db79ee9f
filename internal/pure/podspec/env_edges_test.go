// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capstan-dev/capstan/internal/builder"
)

// TestResourcesRoundUp: a container that reads its limit must not get less than it has.
func TestResourcesRoundUp(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, `spec:
  initContainers: [{name: i, resources: {limits: {memory: 1Gi}}}]
  containers:
  - name: a
    resources:
      limits: {cpu: 1500m, memory: 100Mi, ephemeral-storage: 1Gi}
      requests: {cpu: 250m, memory: 1500Ki}
  - {name: b}`)
	node := builder.Parse[corev1.Node](t, "status: {allocatable: {cpu: 3500m, memory: 3Gi, ephemeral-storage: 10Gi}}")
	tests := map[string]struct {
		of, resource, divisor string
		want                  string
		wantErr               string
	}{
		"cores, rounded up":                     {"a", "limits.cpu", "", "2", ""},
		"thousandths of a core":                 {"a", "limits.cpu", "1m", "1500", ""},
		"a request of cores":                    {"a", "requests.cpu", "1", "1", ""},
		"bytes":                                 {"a", "limits.memory", "", "104857600", ""},
		"mebibytes, rounded up":                 {"a", "requests.memory", "1Mi", "2", ""},
		"kibibytes":                             {"a", "requests.memory", "1Ki", "1500", ""},
		"storage":                               {"a", "limits.ephemeral-storage", "1Gi", "1", ""},
		"no limit: what the node has":           {"b", "limits.cpu", "", "4", ""},
		"no limit of memory: what the node has": {"b", "limits.memory", "1Gi", "3", ""},
		"no request: nothing":                   {"b", "requests.memory", "", "0", ""},
		"an init container":                     {"i", "limits.memory", "1Gi", "1", ""},
		"of no container":                       {"c", "limits.cpu", "", "", `the Pod has no container "c": correct containerName`},
		"no resource":                           {"a", "cpu", "", "", `"cpu" is no resource: use limits.cpu, limits.memory, requests.cpu or requests.memory`},
		"neither a limit nor a request":         {"a", "status.cpu", "", "", `"status.cpu" is no resource: use limits.cpu, limits.memory, requests.cpu or requests.memory`},
		"a resource that the container has not": {"a", "requests.ephemeral-storage", "", "0", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &corev1.ResourceFieldSelector{ContainerName: tc.of, Resource: tc.resource}
			if tc.divisor != "" {
				r.Divisor = *builder.Parse[apiresource.Quantity](t, tc.divisor)
			}
			got, err := resource(pod, "none", r, node)
			if got != tc.want || text(err) != tc.wantErr {
				t.Errorf("%q, %v, want %q, %s", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestFieldsArePathsOfThePod(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, `metadata: {namespace: ns, name: p, uid: u, labels: {b: "2", a: "x\"y", app.io/z: ""}, annotations: {m: "two\nlines"}}
spec: {serviceAccountName: sa}`)
	f := Facts{Host: Host{Node: builder.Parse[corev1.Node](t, "metadata: {name: plane}"), Address: "10.0.0.1"}, PodIP: "10.244.0.7"}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "ns", "metadata.uid": "u", "spec.nodeName": "plane", "spec.serviceAccountName": "sa",
		"status.hostIP": "10.0.0.1", "status.hostIPs": "10.0.0.1", "status.podIP": "10.244.0.7", "status.podIPs": "10.244.0.7",
		"metadata.labels": "a=\"x\\\"y\"\napp.io/z=\"\"\nb=\"2\"", "metadata.annotations": `m="two\nlines"`,
		"metadata.labels['b']": "2", "metadata.labels['app.io/z']": "", "metadata.labels['none']": "", "metadata.annotations['m']": "two\nlines",
	} {
		if got, err := Field(pod, path, f); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"", "spec", "status.phase", "metadata.labels[b]", "metadata.labels['b'", "metadata", "metadata.finalizers['a']"} {
		if got, err := Field(pod, path, f); err == nil || !strings.HasPrefix(err.Error(), `"`+path+`" is no field that a Pod may ask for`) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

// TestEnvironmentsAreTheSameEachTime: another order would restart containers.
func TestEnvironmentsAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, "metadata: {namespace: ns, name: p}\nspec: {containers: [{name: a, envFrom: [{configMapRef: {name: c}}, {secretRef: {name: s}}], env: [{name: level, value: own}]}]}")
	f := facts(t)
	first, err := Env(pod, Containers(pod)[0], Image{Env: []string{"PATH=/bin", "EMPTY=", "BARE"}}, f)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := Env(pod, Containers(pod)[0], Image{Env: []string{"PATH=/bin", "EMPTY=", "BARE"}}, f)
		if diff := cmp.Diff(first, again); diff != "" || err != nil {
			t.Fatalf("%v (-first +again):\n%s", err, diff)
		}
	}
	for i, e := range first {
		name, _, _ := strings.Cut(e, "=")
		if slices.ContainsFunc(first[i+1:], func(other string) bool { return strings.HasPrefix(other, name+"=") }) {
			t.Errorf("%s is there twice", name)
		}
	}
	for _, want := range []string{"PATH=/bin", "EMPTY=", "BARE=", "level=own", "b=two", "user=admin"} {
		if !slices.Contains(first, want) {
			t.Errorf("no %s in %q", want, first)
		}
	}
}

func TestServicesWithSeveralPortsHaveVariables(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, "metadata: {namespace: ns}")
	service := *builder.Parse[corev1.Service](t, "metadata: {namespace: ns, name: my-db}\nspec: {clusterIP: 10.96.0.9, ports: [{name: sql-port, port: 5432}, {name: dns, port: 53, protocol: UDP}]}")
	other := *builder.Parse[corev1.Service](t, "metadata: {namespace: other, name: x}\nspec: {clusterIP: 10.96.0.8, ports: [{port: 1}]}")
	portless := *builder.Parse[corev1.Service](t, "metadata: {namespace: ns, name: y}\nspec: {clusterIP: 10.96.0.7}")
	want := []string{ // as https://kubernetes.io/docs/concepts/services-networking/service has them
		"MY_DB_SERVICE_HOST=10.96.0.9", "MY_DB_SERVICE_PORT=5432", "MY_DB_SERVICE_PORT_SQL_PORT=5432", "MY_DB_SERVICE_PORT_DNS=53", "MY_DB_PORT=tcp://10.96.0.9:5432",
		"MY_DB_PORT_5432_TCP=tcp://10.96.0.9:5432", "MY_DB_PORT_5432_TCP_PROTO=tcp", "MY_DB_PORT_5432_TCP_PORT=5432", "MY_DB_PORT_5432_TCP_ADDR=10.96.0.9",
		"MY_DB_PORT_53_UDP=udp://10.96.0.9:53", "MY_DB_PORT_53_UDP_PROTO=udp", "MY_DB_PORT_53_UDP_PORT=53", "MY_DB_PORT_53_UDP_ADDR=10.96.0.9",
	}
	if diff := cmp.Diff(want, serviceEnv(pod, []corev1.Service{service, other, portless})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFitsListsProblemsInSameOrder: they are the message of a condition, which must not
// change with each reconcile.
func TestFitsListsProblemsInSameOrder(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, "spec: {schedulerName: mine, nodeSelector: {e: x, d: x, c: x, b: x, a: x}}")
	node := builder.Parse[corev1.Node](t, "metadata: {name: plane}\nspec: {taints: [{key: k, effect: NoSchedule}]}")
	const want = `spec.schedulerName: a plane has no scheduler "mine": leave it out; ` +
		"spec.nodeSelector: node plane has no label a=x: set the label, or leave the selector out; spec.nodeSelector: node plane has no label b=x: set the label, or leave the selector out; " +
		"spec.nodeSelector: node plane has no label c=x: set the label, or leave the selector out; spec.nodeSelector: node plane has no label d=x: set the label, or leave the selector out; " +
		"spec.nodeSelector: node plane has no label e=x: set the label, or leave the selector out; spec.tolerations: node plane has the taint k:NoSchedule: remove it, or tolerate it"
	for range 20 {
		if got := Describe(Fits(pod, node)); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestTolerationsAreThoseOfKubernetes(t *testing.T) {
	t.Parallel()
	taint := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		by   corev1.Toleration
		want bool
	}{
		"equal":                    {corev1.Toleration{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v", Effect: corev1.TaintEffectNoSchedule}, true},
		"equal by default":         {corev1.Toleration{Key: "k", Value: "v"}, true},
		"another value":            {corev1.Toleration{Key: "k", Value: "w"}, false},
		"any value":                {corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}, true},
		"any key":                  {corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		"any key, another effect":  {corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, false},
		"another key":              {corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists}, false},
		"an unknown operator":      {corev1.Toleration{Key: "k", Operator: "Like", Value: "v"}, false},
		"a value without key":      {corev1.Toleration{Value: "v"}, false},
		"none, with another value": {corev1.Toleration{}, false},
	}
	for name, tc := range tests {
		if got := tolerated([]corev1.Toleration{tc.by}, taint); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
		if tc.by.Operator == "" && tc.by.Key == "" {
			continue // an API server refuses it
		}
		if library := tc.by.ToleratesTaint(logr.Discard(), &taint, false); library != tc.want {
			t.Errorf("%s: Kubernetes' own function has %t", name, library)
		}
	}
}

func TestNodeRequirementsAreThoseOfKubernetes(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"a": "1", "n": "x", "e": ""}
	requirement := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	tests := map[string]struct {
		e    corev1.NodeSelectorRequirement
		want bool
	}{
		"in":                        {requirement("a", corev1.NodeSelectorOpIn, "0", "1"), true},
		"in, of a missing label":    {requirement("z", corev1.NodeSelectorOpIn, ""), false},
		"in, of an empty label":     {requirement("e", corev1.NodeSelectorOpIn, ""), true},
		"not in":                    {requirement("a", corev1.NodeSelectorOpNotIn, "2"), true},
		"not in, and it is":         {requirement("a", corev1.NodeSelectorOpNotIn, "1"), false},
		"not in, of a missing one":  {requirement("z", corev1.NodeSelectorOpNotIn, "1"), true},
		"exists":                    {requirement("e", corev1.NodeSelectorOpExists), true},
		"does not exist":            {requirement("e", corev1.NodeSelectorOpDoesNotExist), false},
		"greater":                   {requirement("a", corev1.NodeSelectorOpGt, "0"), true},
		"greater, and equal":        {requirement("a", corev1.NodeSelectorOpGt, "1"), false},
		"less than a negative":      {requirement("a", corev1.NodeSelectorOpLt, "-1"), false},
		"greater than no number":    {requirement("a", corev1.NodeSelectorOpGt, "x"), false},
		"no number is not greater":  {requirement("n", corev1.NodeSelectorOpGt, "0"), false},
		"a missing one is not less": {requirement("z", corev1.NodeSelectorOpLt, "9"), false},
		"greater than two":          {requirement("a", corev1.NodeSelectorOpGt, "0", "0"), false},
		"an unknown operator":       {requirement("a", "Near", "1"), false},
	}
	for name, tc := range tests {
		if got := holds(tc.e, labels); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
	node := builder.Parse[corev1.Node](t, "metadata: {name: plane, labels: {a: '1'}}")
	for name, tc := range map[string]struct {
		terms string
		want  bool
	}{
		"no term":                          {"[]", false},
		"an empty term":                    {"[{}]", false},
		"any of two":                       {"[{matchExpressions: [{key: z, operator: Exists}]}, {matchExpressions: [{key: a, operator: Exists}]}]", true},
		"all of one":                       {"[{matchExpressions: [{key: z, operator: Exists}, {key: a, operator: Exists}]}]", false},
		"a field that is none":             {"[{matchFields: [{key: metadata.uid, operator: Exists}]}]", false},
		"the name":                         {"[{matchFields: [{key: metadata.name, operator: In, values: [plane]}]}]", true},
		"another name, and a label it has": {"[{matchFields: [{key: metadata.name, operator: In, values: [x]}], matchExpressions: [{key: a, operator: Exists}]}]", false},
	} {
		terms := *builder.Parse[[]corev1.NodeSelectorTerm](t, tc.terms)
		if got := matchesAny(terms, node); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestMountsStayInTheirVolume: a path is of the user, as is what is expanded into it.
func TestMountsStayInTheirVolume(t *testing.T) {
	t.Parallel()
	for sub, want := range map[string]string{"": "", "a": "a", "a/b": "a/b", "./a": "./a", "a/../b": "a/../b", "..a": "..a"} {
		got, err := MountsOf(Container{Container: &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: sub}}}}, nil)
		if err != nil || got[0].SubPath != want {
			t.Errorf("%q: %+v, %v", sub, got, err)
		}
	}
	for _, sub := range []string{"..", "../x", "/x", "a/../../x", ".", "a/.."} {
		for _, m := range []corev1.VolumeMount{{MountPath: "/v", SubPath: sub}, {MountPath: "/v", SubPathExpr: "$(SUB)"}} {
			if got, err := MountsOf(Container{Container: &corev1.Container{VolumeMounts: []corev1.VolumeMount{m}}, Field: "f"}, []string{"SUB=" + sub}); err == nil {
				t.Errorf("%q: %+v", sub, got)
			}
		}
	}
	for path, want := range map[string]string{"/a/": "/a", "a": "/a", "/a/../b": "/b", "/../a": "/a"} {
		got, err := MountsOf(Container{Container: &corev1.Container{VolumeMounts: []corev1.VolumeMount{{MountPath: path}}}}, nil)
		if err != nil || got[0].Target != want {
			t.Errorf("%q: %+v, %v, want %s", path, got, err, want)
		}
	}
}

func TestPortsHaveNumbersOrNames(t *testing.T) {
	t.Parallel()
	c := builder.Parse[corev1.Container](t, "name: a\nports: [{name: http, containerPort: 8080}, {containerPort: 9}]")
	for name, tc := range map[string]struct {
		port intstr.IntOrString
		want int
		err  string
	}{
		"a number":         {intstr.FromInt32(65535), 65535, ""},
		"zero":             {intstr.FromInt32(0), 0, "0 is no port: use 1 to 65535"},
		"too large":        {intstr.FromInt32(65536), 0, "65536 is no port: use 1 to 65535"},
		"negative":         {intstr.FromInt32(-1), 0, "-1 is no port: use 1 to 65535"},
		"a name":           {intstr.FromString("http"), 8080, ""},
		"a name of none":   {intstr.FromString("https"), 0, `container a has no port named "https": name one of its ports so`},
		"a number as text": {intstr.FromString("8080"), 0, `container a has no port named "8080": name one of its ports so`},
	} {
		if got, err := Port(c, tc.port); got != tc.want || text(err) != tc.err {
			t.Errorf("%s: %d, %v, want %d, %s", name, got, err, tc.want, tc.err)
		}
	}
}

func TestAccountFilesMayBeBroken(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, "spec: {containers: [{name: a}]}")
	tests := map[string]struct {
		user, passwd, group string
		want                User
		refused             bool
	}{
		"no files":                     {user: "7", want: User{UID: 7}},
		"a line without fields":        {user: "app", passwd: "\n:\napp:x:7:8::/:\n", want: User{UID: 7, GID: 8}},
		"a number that is none":        {user: "app", passwd: "app:x:seven:8::/:\n", refused: true},
		"a missing number":             {user: "app", passwd: "app:x\n", refused: true},
		"a negative one":               {user: "-1", refused: true},
		"a group without number":       {user: "7:g", group: "g:x\n", refused: true},
		"an ID at the limit":           {user: "65535:65535", want: User{UID: 65535, GID: 65535}},
		"an ID beyond it":              {user: "65536", refused: true},
		"members of huge groups":       {user: "7", passwd: "app:x:7:8::/:\n", group: "big:x:70000:app\nbad:x:y:app\nok:x:9:app,b\n", want: User{UID: 7, GID: 8, Groups: []int64{9}}},
		"the first of two lines":       {user: "app", passwd: "app:x:7:8::/:\napp:x:1:1::/:\n", want: User{UID: 7, GID: 8}},
		"lines that end as in Windows": {user: "app", passwd: "app:x:7:8::/:/bin/sh\r\n", want: User{UID: 7, GID: 8}},
	}
	for name, tc := range tests {
		got, err := UserOf(pod, Containers(pod)[0], Image{User: tc.user}, Accounts{Passwd: []byte(tc.passwd), Group: []byte(tc.group)})
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.refused {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}
