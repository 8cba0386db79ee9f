// SPDX-License-Identifier: Apache-2.0

package why

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

// TestReplacedNamesFieldsOfDeletedMachine has a management cluster that has recorded
// decisions about a Machine that is deleted, and none of its Events any longer.
func TestReplacedNamesFieldsOfDeletedMachine(t *testing.T) {
	t.Parallel()
	const machine = `{"decisions":[
		{"time":"2026-11-28T07:00:00Z","planner":"machinedeletion.Plan","object":{"kind":"Machine","name":"old-1"},"facts":{"machine":{"metadata":{"namespace":"fleet","name":"old-1",
			"labels":{"cluster.x-k8s.io/deployment-name":"md"},"ownerReferences":[{"kind":"MachineSet","name":"set","uid":"s"}]},
			"status":{"conditions":[{"type":"UpToDate","status":"False","reason":"NotUpToDate","message":"* Version v1.36.2, v1.37.0 required\n* Infrastructure LocalMachineTemplate a, LocalMachineTemplate b required","lastTransitionTime":"2026-11-28T06:59:00Z"}]}}},"plan":{"reason":"DrainingNode"}},
		{"time":"2026-11-28T07:01:00Z","planner":"machinedeletion.Plan","object":{"kind":"Machine","name":"old-1"},"plan":{},"omitted":"facts and answers have 70000 bytes, the limit is 65536"}]}`
	const set = `{"decisions":[
		{"time":"2026-11-28T06:00:00Z","planner":"scaling.Facts","object":{"kind":"MachineSet","name":"set"},"plan":["create old-1: have 0, want 2","create old-12: have 0, want 2"]},
		{"time":"2026-11-28T06:59:30Z","planner":"scaling.Facts","object":{"kind":"MachineSet","name":"set"},"plan":["delete old-1: have 2, want 1"]},
		{"time":"2026-11-28T07:02:00Z","planner":"scaling.Facts","object":{"kind":"MachineSet","name":"set"},"plan":["delete old-12: have 1, want 0"]}]}`
	const deployment = `{"decisions":[{"time":"2026-11-28T06:58:00Z","planner":"rollout.Result","object":{"kind":"MachineDeployment","name":"md"},"plan":{"actions":["create new with 1 replicas: no MachineSet matches the template","scale up new from 1 to 2: it takes over old-1"]}}]}`
	pages := map[string]string{"machine/fleet/old-1": machine, "machineset/fleet/set": set, "machinedeployment/fleet/md": deployment, "machine/fleet/never": `{"decisions":[]}`}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := pages[r.URL.Path[len("/capstan/v1/decisions/"):]]
		if !ok {
			http.Error(w, "no permission", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	c := Reader{Reader: references.Reader{Mgmt: memory(t)}, Raw: rawClient(t, server.URL)}
	key := causes.Key{Group: "cluster.x-k8s.io", Kind: "Machine", Namespace: "fleet", Name: "old-1"}
	r, err := c.Replaced(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	want := causes.Replacement{
		Machine:     key,
		Differences: []causes.Difference{{Field: "Version", From: "v1.36.2", To: "v1.37.0"}, {Field: "Infrastructure", From: "LocalMachineTemplate a", To: "LocalMachineTemplate b"}},
		Statements: []causes.Statement{
			{Source: "Condition UpToDate", Text: "* Version v1.36.2, v1.37.0 required\n* Infrastructure LocalMachineTemplate a, LocalMachineTemplate b required"},
			{Source: "Decision of MachineSet set", Text: "delete old-1: have 2, want 1"},
		},
	}
	if diff := cmp.Diff(want, r, cmpopts.IgnoreFields(causes.Statement{}, "At")); diff != "" {
		t.Errorf("replacement (-want +got):\n%s", diff)
	}
	for _, name := range []string{"never", "forbidden"} {
		key.Name = name
		if r, err := c.Replaced(t.Context(), key); err == nil {
			t.Errorf("a Machine that never existed: %+v", r)
		}
	}
}
