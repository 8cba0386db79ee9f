// SPDX-License-Identifier: Apache-2.0

package listing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/listing"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestRowsShowWhatKubectlPrints(t *testing.T) {
	t.Parallel()
	const meta = "metadata: {name: x, namespace: ns, creationTimestamp: 2026-01-01T11:55:00Z"
	tests := map[string]struct{ resource, object, want string }{
		"a node": {"nodes", meta + ", labels: {node-role.kubernetes.io/control-plane: ''}}\nspec: {unschedulable: true}\nstatus: {conditions: [{type: Ready, status: 'True'}], nodeInfo: {kubeletVersion: v1.34.2}, addresses: [{type: InternalIP, address: 10.0.0.1}]}",
			"x|Ready,SchedulingDisabled|control-plane|5m|v1.34.2|10.0.0.1|<none>|<unknown>|<unknown>|<unknown>"},
		"a node that is not ready": {"nodes", meta + "}\nstatus: {conditions: [{type: Ready, status: 'False'}]}",
			"x|NotReady|<none>|5m||<none>|<none>|<unknown>|<unknown>|<unknown>"},
		"a node of several roles":  {"nodes", meta + ", labels: {node-role.kubernetes.io/b: '', node-role.kubernetes.io/a: '', node-role.kubernetes.io/: '', kubernetes.io/role: a}}", "x|Unknown|a,b|5m||<none>|<none>|<unknown>|<unknown>|<unknown>"},
		"a node that says nothing": {"nodes", meta + "}", "x|Unknown|<none>|5m||<none>|<none>|<unknown>|<unknown>|<unknown>"},
		"a pod": {"pods", meta + "}\nspec: {nodeName: w, containers: [{}, {}]}\nstatus: {phase: Running, podIP: 10.1.1.1, containerStatuses: [{ready: true, restartCount: 2}, {ready: false}]}",
			"x|1/2|Running|2|5m|10.1.1.1|w|<none>|<none>"},
		"a pod that crashes": {"pods", meta + "}\nspec: {containers: [{}]}\nstatus: {phase: Running, containerStatuses: [{state: {waiting: {reason: CrashLoopBackOff}}}]}",
			"x|0/1|CrashLoopBackOff|0|5m|<none>|<none>|<none>|<none>"},
		"a deployment": {"deployments", meta + "}\nspec: {replicas: 3, selector: {matchLabels: {b: c, a: b}}, template: {spec: {containers: [{name: c, image: i}]}}}\nstatus: {readyReplicas: 2, updatedReplicas: 3, availableReplicas: 1}",
			"x|2/3|3|1|5m|c|i|a=b,b=c"},
		"a service": {"services", meta + "}\nspec: {type: ClusterIP, clusterIP: 10.0.0.1, ports: [{port: 443}, {port: 53, protocol: UDP, nodePort: 30000}]}",
			"x|ClusterIP|10.0.0.1|<none>|443/TCP,53:30000/UDP|5m|<none>"},
		"a secret":     {"secrets", meta + "}\ntype: Opaque\ndata: {a: '', b: ''}", "x|Opaque|2|5m"},
		"a config map": {"configmaps", meta + "}\ndata: {a: ''}\nbinaryData: {b: ''}", "x|2|5m"},
		"an event": {"events", meta + "}\ntype: Normal\nreason: Started\nmessage: it runs\ninvolvedObject: {kind: Pod, name: p}\nlastTimestamp: 2026-01-01T11:59:00Z",
			"60s|Normal|Started|pod/p|||it runs|5m|0|x"},
		"a budget":                  {"poddisruptionbudgets", meta + "}\nspec: {minAvailable: 50%}", "x|50%|N/A|0|5m"},
		"a binding":                 {"rolebindings", meta + "}\nroleRef: {kind: Role, name: r}", "x|Role/r|5m"},
		"a request":                 {"certificatesigningrequests", meta + "}\nstatus: {certificate: abc, conditions: [{type: Approved}]}", "x|5m|<none>||<none>|Approved,Issued"},
		"a lease":                   {"leases", meta + "}\nspec: {holderIdentity: me}", "x|me|5m"},
		"an attachment":             {"volumeattachments", meta + "}\nspec: {attacher: csi, nodeName: w, source: {persistentVolumeName: v}}\nstatus: {attached: true}", "x|csi|v|w|true|5m"},
		"an attachment to come":     {"volumeattachments", meta + "}\nspec: {attacher: csi}", "x|csi|||false|5m"},
		"a budget of a number":      {"poddisruptionbudgets", meta + "}\nspec: {maxUnavailable: 1}\nstatus: {disruptionsAllowed: 2}", "x|N/A|1|2|5m"},
		"a service outside":         {"services", meta + "}\nspec: {type: LoadBalancer, externalIPs: [192.0.2.1], selector: {b: c, a: b}}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.2}, {hostname: h}]}}", "x|LoadBalancer|<none>|192.0.2.1,192.0.2.2|<none>|5m|a=b,b=c"},
		"a service to come":         {"services", meta + "}\nspec: {type: LoadBalancer, clusterIP: 10.0.0.1, ports: [{port: 80}]}", "x|LoadBalancer|10.0.0.1|<pending>|80/TCP|5m|<none>"},
		"endpoints":                 {"endpoints", meta + "}\nsubsets: [{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}], ports: [{port: 1}, {port: 2}]}]", "x|10.0.0.1:1,10.0.0.1:2,10.0.0.2:1 + 1 more...|5m"},
		"no endpoints":              {"endpoints", meta + "}", "x|<none>|5m"},
		"a slice of endpoints":      {"endpointslices", meta + "}\naddressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]", "x|IPv4|80|10.0.0.1,10.0.0.2|5m"},
		"a daemon set":              {"daemonsets", meta + "}\nspec: {template: {spec: {nodeSelector: {a: b}, containers: [{name: c, image: i}, {name: d, image: j}]}}}\nstatus: {desiredNumberScheduled: 3, currentNumberScheduled: 2, numberReady: 1, updatedNumberScheduled: 2, numberAvailable: 1}", "x|3|2|1|2|1|a=b|5m|c,d|i,j|<none>"},
		"a pod that is deleted":     {"pods", "metadata: {name: x, creationTimestamp: 2026-01-01T11:55:00Z, deletionTimestamp: 2026-01-01T11:59:00Z}\nspec: {containers: [{}]}\nstatus: {phase: Running}", "x|0/1|Terminating|0|5m|<none>|<none>|<none>|<none>"},
		"a pod that was evicted":    {"pods", meta + "}\nspec: {containers: [{}]}\nstatus: {phase: Failed, reason: Evicted}", "x|0/1|Evicted|0|5m|<none>|<none>|<none>|<none>"},
		"an event of a series":      {"events", meta + "}\nseries: {lastObservedTime: 2026-01-01T11:58:00Z}\nlastTimestamp: 2026-01-01T11:00:00Z\nfirstTimestamp: 2026-01-01T10:00:00Z\ncount: 4", "2m|||/||||120m|4|x"},
		"an event without times":    {"events", "metadata: {name: x}", "<unknown>|||/||||<unknown>|0|x"},
		"a request to come":         {"certificatesigningrequests", meta + "}\nspec: {signerName: s, username: u}", "x|5m|s|u|<none>|Pending"},
		"fields of the wrong types": {"nodes", "metadata: {name: 5, creationTimestamp: x}\nstatus: {conditions: {a: b}, addresses: [5]}", "|Unknown|<none>|<unknown>||<none>|<none>|<unknown>|<unknown>|<unknown>"},
		"any other":                 {"limitranges", meta + "}", "x|5m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var content map[string]any
			if err := yaml.Unmarshal([]byte(tc.object), &content, yaml.DisallowUnknownFields); err != nil {
				t.Fatal(err)
			}
			k := kindOf(t, tc.resource)
			table, err := listing.Table(k, []*unstructured.Unstructured{{Object: integers(content).(map[string]any)}}, now)
			if err != nil {
				t.Fatal(err)
			}
			var cells []string
			for _, c := range table.Rows[0].Cells {
				cells = append(cells, fmt.Sprint(c))
			}
			if diff := cmp.Diff(tc.want, strings.Join(cells, "|")); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			if got := len(table.ColumnDefinitions); got != len(cells) {
				t.Errorf("%d columns for %d cells", got, len(cells))
			}
		})
	}
}

func TestTableOfADefinedKindHasItsColumns(t *testing.T) {
	t.Parallel()
	all, k := withWidgets(t)
	objs, err := all.All(k.GVR(), "default", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range [][]*unstructured.Unstructured{nil, objs} {
		table, err := listing.Table(k, shown, now)
		if err != nil || table.Kind != "Table" || table.APIVersion != "meta.k8s.io/v1" || table.Rows == nil || len(table.Rows) != len(shown) || len(table.ColumnDefinitions) != 2 {
			t.Fatalf("table %+v, error %v", table, err)
		}
		for i, want := range []int64{10, 1}[:len(shown)] {
			if row := table.Rows[i]; row.Cells[0] != shown[i].GetName() || row.Cells[1] != want || row.Object.Object != nil {
				t.Errorf("row %+v, want %d", row, want)
			}
		}
	}
}

func kindOf(t *testing.T, resource string) *kinds.Kind {
	t.Helper()
	for _, k := range kinds.Everywhere().All() {
		if k.Resource == resource {
			return k
		}
	}
	t.Fatalf("no kind %s", schema.GroupResource{Resource: resource})
	return nil
}

// integers converts the numbers of YAML to those of decoded objects.
func integers(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case map[string]any:
		for key := range v {
			v[key] = integers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	}
	return v
}
