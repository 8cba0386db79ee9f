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
		"a budget":  {"poddisruptionbudgets", meta + "}\nspec: {minAvailable: 50%}", "x|50%|N/A|0|5m"},
		"a binding": {"rolebindings", meta + "}\nroleRef: {kind: Role, name: r}", "x|Role/r|5m"},
		"a request": {"certificatesigningrequests", meta + "}\nstatus: {certificate: abc, conditions: [{type: Approved}]}", "x|5m|<none>||<none>|Approved,Issued"},
		"a lease":   {"leases", meta + "}\nspec: {holderIdentity: me}", "x|me|5m"},
		"any other": {"limitranges", meta + "}", "x|5m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var content map[string]any
			if err := yaml.Unmarshal([]byte(tc.object), &content, yaml.DisallowUnknownFields); err != nil {
				t.Fatal(err)
			}
			k := kindOf(t, tc.resource)
			row := listing.TableRow(k, &unstructured.Unstructured{Object: integers(content).(map[string]any)}, nil, now)
			var cells []string
			for _, c := range row.Cells {
				cells = append(cells, fmt.Sprint(c))
			}
			if diff := cmp.Diff(tc.want, strings.Join(cells, "|")); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			if got := len(listing.EmptyTable(k).ColumnDefinitions); got != len(cells) {
				t.Errorf("%d columns for %d cells", got, len(cells))
			}
		})
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
