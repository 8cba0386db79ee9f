// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// exchange is one request that a simulated cluster and an API server answer alike,
// except for what differs: a path in the answer, and the reason.
type exchange struct {
	name, method, path, contentType, accept, body string
	until                                         int // a code that is returned only after a while
	differs                                       map[string]string
}

// difference is one that many answers show.
type difference struct {
	path *regexp.Regexp
	why  string
}

// TestASimulatedClusterAnswersAsAnAPIServerDoes sends the same requests to the
// management plane's API server and to that of a simulated cluster, one after the
// other, and compares each answer. Generated names, versions and times are not
// compared.
func TestASimulatedClusterAnswersAsAnAPIServerDoes(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	genuine := testenv.Foreign(t).Config
	simulated := simulatedCluster(t)
	var was [2]map[string]any
	usual := map[*regexp.Regexp]int{}
	for _, x := range slices.Concat(exchanges, defaultExchanges, definedExchanges) {
		t.Run(x.name, func(t *testing.T) {
			var answers [2]map[string]any
			for i, cfg := range []*rest.Config{genuine, simulated} {
				testenv.Eventually(t, func() error {
					answers[i] = x.ask(t, cfg, was[i])
					if code := answers[i]["code"]; x.until != 0 && code != int64(x.until) {
						return fmt.Errorf("answers %v, want %d", code, x.until)
					}
					return nil
				})
			}
			was = answers
			found := map[string]string{}
			differences(found, "", normal(answers[0]), normal(answers[1]))
			for _, path := range slices.Sorted(maps.Keys(found)) {
				if at := slices.IndexFunc(everywhere, func(d difference) bool { return d.path.MatchString(path) }); at >= 0 {
					usual[everywhere[at].path]++
				} else if x.differs[path] == "" {
					t.Errorf("%s: %s", path, found[path])
				}
			}
			for path := range x.differs {
				if found[path] == "" {
					t.Errorf("%s does not differ: take it off the list", path)
				}
			}
		})
	}
	for _, d := range everywhere {
		if usual[d.path] == 0 {
			t.Errorf("%s does not differ anywhere: take it off the list", d.path)
		}
	}
}

// simulatedCluster serves the API of a simulated cluster, whose administrator
// has a bootstrap token.
func simulatedCluster(t *testing.T) *rest.Config {
	t.Helper()
	s, err := apiserver.New(apiserver.Options{Name: "like", Version: func() string { return "v1.36.0" }, Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range []apiserver.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
			Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true")},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "like"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers"}},
		},
	} {
		if err := s.Store().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() { s.Close(); server.Close() })
	return &rest.Config{Host: server.URL, BearerToken: "abcdef.0123456789abcdef", QPS: -1}
}

// ask sends the request, and returns the answer with its code and kind. It
// continues the list of the answer before it.
func (x exchange) ask(t *testing.T, cfg *rest.Config, before map[string]any) map[string]any {
	t.Helper()
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	path := continued(x.path, before)
	req, err := http.NewRequestWithContext(t.Context(), x.method, cfg.Host+path, strings.NewReader(continued(x.body, before)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", x.contentType)
	if req.Header.Set("Accept", x.accept); x.accept == "" {
		req.Header.Set("Accept", "application/json")
	}
	req.Header.Set("User-Agent", "likeness/1")
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]any{"code": int64(resp.StatusCode), "type": resp.Header.Get("Content-Type")}
	if w := resp.Header.Values("Warning"); len(w) > 0 {
		answer["warning"] = strings.Join(w, "\n")
	}
	answer["body"] = decoded(raw)
	return answer
}

// decoded is a body as what it holds: a document, a stream of them, or text.
func decoded(raw []byte) any {
	var docs []any
	var one map[string]any
	if utiljson.Unmarshal(raw, &one) == nil {
		return one
	}
	for line := range strings.Lines(string(raw)) {
		var doc map[string]any
		if err := utiljson.Unmarshal([]byte(line), &doc); err != nil {
			return string(raw)
		}
		docs = append(docs, doc)
	}
	return docs
}

// continued inserts values of the answer before it into a request: {continue}, the
// token of a list, or {version}, that of an object or a list.
func continued(text string, before map[string]any) string {
	body, _ := before["body"].(map[string]any)
	meta, _ := body["metadata"].(map[string]any)
	return strings.NewReplacer("{continue}", fmt.Sprint(meta["continue"]), "{version}", fmt.Sprint(meta["resourceVersion"]), "{uid}", fmt.Sprint(meta["uid"])).Replace(text)
}

// unlike are the fields that hold a generated name, a version or a time.
var unlike = []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime", "continue", "storageVersionHash", "selfLink"}

var madeUp = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|gen-[a-z0-9]{5}|current: [0-9]+|127.0.0.1:[0-9]+|^[0-9]+m?s$`)

// normal takes out of an answer what is never alike.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			switch key {
			case "columnDefinitions":
				value = normalColumns(value)
			case "managedFields":
				value = normalManagers(value)
			}
			if text, ok := value.(string); ok && slices.Contains(unlike, key) && text != "" {
				out[key] = "..."
				continue
			}
			out[key] = normal(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = normal(v[i])
		}
		return out
	case string:
		return madeUp.ReplaceAllString(v, "...")
	}
	return v
}

// normalColumns takes out of the columns of a table what they are for, which
// clients do not show.
func normalColumns(v any) any {
	list, _ := v.([]any)
	for _, column := range list {
		delete(column.(map[string]any), "description")
	}
	return v
}

// normalManagers sorts the managers of an object by name. A server sorts them by
// the second in which each wrote, and by name within one: the order of two
// consecutive ones depends on the time of the requests, not on the server.
func normalManagers(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	key := func(v any) string {
		m, _ := v.(map[string]any)
		return fmt.Sprint(m["operation"], m["subresource"], m["manager"], m["apiVersion"])
	}
	return slices.SortedFunc(slices.Values(list), func(a, b any) int { return strings.Compare(key(a), key(b)) })
}

// differences lists the paths at which b is not as a.
func differences(found map[string]string, path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(a)) {
				if _, ok := b[key]; !ok {
					found[path+"."+key] = fmt.Sprintf("is missing: %s", text(a[key]))
				} else {
					differences(found, path+"."+key, a[key], b[key])
				}
			}
			for _, key := range slices.Sorted(maps.Keys(b)) {
				if _, ok := a[key]; !ok {
					found[path+"."+key] = fmt.Sprintf("is too much: %s", text(b[key]))
				}
			}
			return
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				differences(found, fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
			}
			return
		}
	default:
		if a == b {
			return
		}
	}
	found[path] = fmt.Sprintf("%s, want %s", text(b), text(a))
}

// text is a value as it is read best, and not too long.
func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const long = 600
	if len(raw) > long {
		return string(raw[:long]) + "..."
	}
	return string(raw)
}

// defaultExchanges create one of each built-in kind that users write, with few
// fields: the server sets the rest.
var defaultExchanges = []exchange{
	{name: "default a Deployment", method: "POST", path: "/apis/apps/v1/namespaces/like/deployments?dryRun=All", contentType: yamled, body: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'x:1', ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}}, readinessProbe: {exec: {command: [ls]}}, env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], resources: {limits: {cpu: 100m}}, lifecycle: {preStop: {httpGet: {port: 80}}}}], initContainers: [{name: i, image: 'x'}], volumes: [{name: a}, {name: b, secret: {secretName: s}}, {name: c, configMap: {name: m}}, {name: d, hostPath: {path: /x}}, {name: e, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}, {name: f, projected: {sources: [{serviceAccountToken: {path: t}}]}}], serviceAccountName: s}}}}`},
	{name: "default a Deployment that is recreated", method: "POST", path: "/apis/apps/v1/namespaces/like/deployments?dryRun=All", contentType: yamled, body: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 0, strategy: {type: Recreate}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {hostNetwork: true, containers: [{name: c, image: 'x@sha256:0000000000000000000000000000000000000000000000000000000000000000', ports: [{containerPort: 80}]}]}}}}`},
	{name: "default a ReplicaSet", method: "POST", path: "/apis/apps/v1/namespaces/like/replicasets?dryRun=All", contentType: yamled, body: `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: d}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}`},
	{name: "default a DaemonSet", method: "POST", path: "/apis/apps/v1/namespaces/like/daemonsets?dryRun=All", contentType: yamled, body: `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}`, differs: map[string]string{".body.metadata.annotations": "a field of versions that are gone, which nothing here reads", ".body.metadata.managedFields[0].fieldsV1.f:metadata": "as above"}},
	{name: "default a StatefulSet", method: "POST", path: "/apis/apps/v1/namespaces/like/statefulsets?dryRun=All", contentType: yamled, body: `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: d}, spec: {replicas: 0, serviceName: s, selector: {matchLabels: {a: b}}, volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}`},
	{name: "default a Job", method: "POST", path: "/apis/batch/v1/namespaces/like/jobs?dryRun=All", contentType: yamled, body: `{apiVersion: batch/v1, kind: Job, metadata: {name: d}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}`},
	{name: "default a Job that is a queue", method: "POST", path: "/apis/batch/v1/namespaces/like/jobs?dryRun=All", contentType: yamled, body: `{apiVersion: batch/v1, kind: Job, metadata: {name: d}, spec: {suspend: true, parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}`},
	{name: "default a CronJob", method: "POST", path: "/apis/batch/v1/namespaces/like/cronjobs?dryRun=All", contentType: yamled, body: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: d}, spec: {schedule: '0 0 1 1 *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}}}`},
	{name: "default a Service", method: "POST", path: "/api/v1/namespaces/like/services?dryRun=All", contentType: yamled, body: `{apiVersion: v1, kind: Service, metadata: {name: d}, spec: {clusterIP: None, selector: {a: b}, ports: [{port: 80}]}}`},
	{name: "default a Service of names", method: "POST", path: "/api/v1/namespaces/like/services?dryRun=All", contentType: yamled, body: `{apiVersion: v1, kind: Service, metadata: {name: d}, spec: {type: ExternalName, externalName: example.com}}`},
	{name: "default a PersistentVolumeClaim", method: "POST", path: "/api/v1/namespaces/like/persistentvolumeclaims?dryRun=All", contentType: yamled, body: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, differs: map[string]string{".body.metadata.finalizers": "nothing here uses a volume, so nothing has to be kept from going"}},
	{name: "default a Ingress", method: "POST", path: "/apis/networking.k8s.io/v1/namespaces/like/ingresses?dryRun=All", contentType: yamled, body: `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: d}, spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}}`},
	{name: "default a NetworkPolicy", method: "POST", path: "/apis/networking.k8s.io/v1/namespaces/like/networkpolicies?dryRun=All", contentType: yamled, body: `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: d}, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}], egress: [{ports: [{port: 53, protocol: UDP}]}]}}`},
	{name: "default a PodDisruptionBudget", method: "POST", path: "/apis/policy/v1/namespaces/like/poddisruptionbudgets?dryRun=All", contentType: yamled, body: `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: d}, spec: {maxUnavailable: 1, selector: {matchLabels: {a: b}}}}`},
	{name: "default a HorizontalPodAutoscaler", method: "POST", path: "/apis/autoscaling/v2/namespaces/like/horizontalpodautoscalers?dryRun=All", contentType: yamled, body: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: d}, spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}}`},
	{name: "default a Secret", method: "POST", path: "/api/v1/namespaces/like/secrets?dryRun=All", contentType: yamled, body: `{apiVersion: v1, kind: Secret, metadata: {name: d}, stringData: {a: b}}`},
	{name: "default a PersistentVolume", method: "POST", path: "/api/v1/persistentvolumes?dryRun=All", contentType: yamled, body: `{apiVersion: v1, kind: PersistentVolume, metadata: {name: d}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}}`, differs: map[string]string{".body.metadata.finalizers": "nothing here uses a volume, so nothing has to be kept from going", ".body.status.lastPhaseTransitionTime": "no timer for phases"}},
	{name: "default a StorageClass", method: "POST", path: "/apis/storage.k8s.io/v1/storageclasses?dryRun=All", contentType: yamled, body: `{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: d}, provisioner: p}`},
	{name: "default a IngressClass", method: "POST", path: "/apis/networking.k8s.io/v1/ingressclasses?dryRun=All", contentType: yamled, body: `{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: d}, spec: {controller: example.com/c}}`},
	{name: "default a PriorityClass", method: "POST", path: "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All", contentType: yamled, body: `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: d}, value: 5}`},
	{name: "default a ClusterRoleBinding", method: "POST", path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?dryRun=All", contentType: yamled, body: `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: d}, roleRef: {kind: ClusterRole, name: view}, subjects: [{kind: User, name: u}, {kind: ServiceAccount, name: s, namespace: like}]}`},
	{name: "default a ValidatingWebhookConfiguration", method: "POST", path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All", contentType: yamled, body: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: d}, webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: like}}, rules: [{operations: [CREATE], apiGroups: [x.example.com], apiVersions: [v1], resources: [xs]}]}]}`},
	{name: "default a MutatingWebhookConfiguration", method: "POST", path: "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations?dryRun=All", contentType: yamled, body: `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: d}, webhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {name: s, namespace: like}}}]}`},
	{name: "default a APIService", method: "POST", path: "/apis/apiregistration.k8s.io/v1/apiservices?dryRun=All", contentType: yamled, body: `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.x.example.com}, spec: {group: x.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: s, namespace: like}}}`},
}
