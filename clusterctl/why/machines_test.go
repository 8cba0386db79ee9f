// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

// table is the table of machines that an API server prints, in which those that bad names
// are not ready.
func table(machines int, bad ...string) []byte {
	type column struct{ Name string }
	type row struct{ Cells []any }
	out := struct {
		ColumnDefinitions []column
		Rows              []row
	}{ColumnDefinitions: []column{{"Name"}, {"Cluster"}, {"Ready"}, {"Available"}, {"Up-to-date"}, {"Paused"}, {"Phase"}}}
	for i := range machines {
		name, ready := fmt.Sprintf("m-%03d", i), "True"
		if slices.Contains(bad, name) {
			ready = "False"
		}
		out.Rows = append(out.Rows, row{[]any{name, "demo", ready, "True", "False", "False", "Running"}})
	}
	text, _ := json.Marshal(out) // it has only texts
	return text
}

// printing returns a client of an API server in memory that prints a table of machines, and
// what it reads of Machines: names, or "list".
func printing(t *testing.T, machines int, printed []byte) (Reader, func() []string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/namespaces/fleet/machines") || r.URL.Query().Get("labelSelector") != "cluster.x-k8s.io/cluster-name=demo" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(printed)
	}))
	t.Cleanup(server.Close)
	var mu sync.Mutex // guards read
	var read []string
	note := func(of, kind string) {
		if strings.TrimSuffix(kind, "List") == "Machine" {
			mu.Lock()
			defer mu.Unlock()
			read = append(read, of)
		}
	}
	mgmt := interceptor.NewClient(memory(t, cluster(machines)...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			note(key.Name, obj.GetObjectKind().GroupVersionKind().Kind)
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			note("list", list.GetObjectKind().GroupVersionKind().Kind)
			return c.List(ctx, list, opts...)
		},
	})
	return Reader{Reader: references.Reader{Mgmt: mgmt}, Raw: rawClient(t, server.URL)}, func() []string { slices.Sort(read); return read }
}

func TestReadReadsOnlyMachinesThatNeedAttention(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range mostSingle + 1 {
		many = append(many, fmt.Sprintf("m-%03d", i))
	}
	core, infra := clusterv1.GroupVersion().Group, infrav1.GroupVersion().Group
	demo := causes.Key{Group: core, Kind: "Cluster", Namespace: "fleet", Name: "demo"}
	for name, tc := range map[string]struct {
		start causes.Key
		table []byte
		want  []string
	}{
		"none does":                         {demo, table(60), nil},
		"two do":                            {demo, table(60, "m-007", "m-059"), []string{"m-007", "m-059"}},
		"one is deleted meanwhile":          {demo, table(61, "m-060"), []string{"m-060"}},
		"many do":                           {demo, table(60, many...), []string{"list"}},
		"an API server that prints another": {demo, []byte(`{"columnDefinitions":[{"name":"Name"},{"name":"Phase"}],"rows":[{"cells":["m-000","Running"]}]}`), []string{"list"}},
		"an API server that prints none":    {demo, []byte(`{"kind":"MachineList","items":[]}`), []string{"list"}},
		"a forged row":                      {demo, []byte(strings.Replace(string(table(1)), `"m-000","demo",`, "", 1)), []string{"list"}},
		"the start is a Machine":            {causes.Key{Group: core, Kind: "Machine", Namespace: "fleet", Name: "m-003"}, table(60), []string{"m-003"}},
		"the start belongs to a Machine":    {causes.Key{Group: infra, Kind: "LocalMachine", Namespace: "fleet", Name: "m-003"}, table(60), []string{"m-003"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, read := printing(t, 60, tc.table)
			if _, _, err := c.Read(t.Context(), tc.start); err != nil {
				t.Fatal(err)
			}
			if got := read(); !slices.Equal(got, tc.want) {
				t.Errorf("read %v of Machines, want %v", got, tc.want)
			}
		})
	}
}
