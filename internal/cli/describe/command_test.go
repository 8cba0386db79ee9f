// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// plane answers as a management cluster with the Cluster fleet/demo, one Machine of it that
// owns itself, and Events.
func plane(w http.ResponseWriter, r *http.Request) {
	const core = "/apis/cluster.x-k8s.io/v1beta2"
	var kinds []string
	for _, kind := range []string{"Cluster", "MachineDeployment", "MachineSet", "MachinePool", "MachineHealthCheck", "Machine"} {
		kinds = append(kinds, fmt.Sprintf(`{"name":"%ss","singularName":"%[1]s","namespaced":true,"kind":"%s","verbs":["get","list","watch"]}`, strings.ToLower(kind), kind))
	}
	machine := `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"m","namespace":"fleet","uid":"m","labels":{"cluster.x-k8s.io/cluster-name":"demo"},"ownerReferences":[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","name":"m","uid":"m"}]},"spec":{"clusterName":"demo"},` +
		`"status":{"conditions":[{"type":"Ready","status":"False","reason":"NotReady","message":"* Node:\n  * \u001b[2J is lost","lastTransitionTime":"2026-01-01T11:00:00Z"}]}}`
	event := func(name, kind, object, of, message string) string {
		return fmt.Sprintf(`{"metadata":{"name":"%s","namespace":"fleet","uid":"%[1]s"},"type":"%s","reason":"R","message":"%s","lastTimestamp":"2026-01-01T11:5%[5]s:00Z","count":%[6]s,"involvedObject":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","namespace":"fleet","name":"%[4]s","uid":"%[7]s"}}`, name, kind, message, object, of, of, object)
	}
	answer, ok := map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"events","singularName":"","namespaced":true,"kind":"Event","verbs":["list","watch"]}]}`,
		"/apis":                                  `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"cluster.x-k8s.io","versions":[{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"}],"preferredVersion":{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"}}]}`,
		core:                                     `{"kind":"APIResourceList","groupVersion":"cluster.x-k8s.io/v1beta2","resources":[` + strings.Join(kinds, ",") + "]}",
		core + "/namespaces/fleet/clusters/demo": `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"demo","namespace":"fleet","uid":"c"},"spec":{},"status":{"conditions":[{"type":"Available","status":"False","reason":"NotAvailable","message":"no workers","lastTransitionTime":"2026-01-01T11:30:00Z"}]}}`,
		core + "/namespaces/fleet/machines":      `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineList","items":[` + machine + "]}",
		core + "/clusters":                       `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"ClusterList","items":[]}`,
		"/api/v1/namespaces/fleet/events":        `{"apiVersion":"v1","kind":"EventList","metadata":{"resourceVersion":"9"},"items":[` + event("e1", "Warning", "m", "9", `\u001b[2Jtwo\nlines`) + "," + event("e2", "Normal", "m", "1", "first") + "," + event("e3", "Normal", "unrelated", "5", "of another") + "]}",
		"/api/v1/events":                         `{"apiVersion":"v1","kind":"EventList","items":[` + event("e1", "Warning", "m", "9", "all") + "]}",
	}[r.URL.Path]
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Query().Get("watch") != "":
		<-r.Context().Done()
	case !ok && strings.HasPrefix(r.URL.Path, core+"/namespaces/fleet/") && strings.Count(r.URL.Path, "/") == 6:
		answer = `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"List","items":[]}`
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	_, _ = io.WriteString(w, answer)
}

// execute runs a command line against an API server, and returns its output.
func execute(t *testing.T, server http.HandlerFunc, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, namespace: fleet}}], clusters: [{name: c, cluster: {server: '" + s.URL + "'}}]}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	env := &command.Env{Name: "capstan", Out: &out, Err: &said, Now: func() time.Time { return noon }, LookupEnv: func(name string) (string, bool) { return file, name == "KUBECONFIG" }}
	root := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(New(env), NewEvents(env), NewWhy(env))
	root.SetOut(&out)
	root.SetErr(&said)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), said.String(), err
}

func TestDescribePrintsEachFormat(t *testing.T) {
	t.Parallel()
	text, _, err := execute(t, plane, "describe", "cluster", "demo")
	var rows []string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"NAME REPLICAS AVAILABLE READY UP TO DATE VERSION STATUS REASON SINCE MESSAGE", "Cluster/demo Available: False NotAvailable 30m no workers", "└─Other",
		`└─Machine/m 1 0 Ready: False NotReady 60m * Node:`, `* \x1b[2J is lost`,
	}
	if diff := cmp.Diff(want, rows[:min(len(rows), len(want))]); diff != "" || err != nil {
		t.Errorf("%v, rows (-want +got):\n%s", err, diff)
	}
	for _, format := range []string{"json", "yaml"} {
		text, said, err := execute(t, plane, "describe", "cluster", "demo", "-o", format)
		if err != nil || said != "" || !strings.Contains(text, "Machine/m") || strings.Contains(text, "Blocked by") {
			t.Errorf("%s: %v, said %q, printed %s", format, err, said, text)
		}
		var root tree.Node
		if format == "json" && (json.Unmarshal([]byte(text), &root) != nil || root.Title != "Cluster/demo" || root.Children[0].Children[0].Object.UID != "m") {
			t.Errorf("the tree is %+v", root)
		}
	}
	if text, _, err := execute(t, plane, "describe", "cluster", "demo", "--v1beta2", "-o", "json"); err != nil || !strings.HasPrefix(text, "{") {
		t.Errorf("with the flag of upstream: %v, printed %.100s", err, text)
	}
	if text, _, err := execute(t, plane, "describe", "cluster", "demo", "--color"); err != nil || !strings.Contains(text, "\x1b[31mAvailable: False\x1b[0m") {
		t.Errorf("in color: %v, %q", err, text)
	}
	if _, _, err := execute(t, plane, "describe", "cluster", "none"); !errors.As(err, new(*clusterctl.NoClusterError)) {
		t.Errorf("one that is not there: error %v", err)
	}
}

func TestDescribeRefusesWrongFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"describe cluster":                               "the name of one cluster is needed",
		"describe cluster a b":                           "the name of one cluster is needed",
		"describe cluster a -o wide":                     `--output "wide" is not known: use json or yaml`,
		"describe cluster a --show-conditions=":          "--show-conditions without a value",
		"describe cluster a --output=":                   "--output without a value",
		"describe cluster a --v1beta2=false":             "the conditions of v1beta1 are not shown",
		"describe cluster demo --show-conditions machin": "did you mean machine?",
		"events a b":                 "the name of one cluster is needed, or none",
		"events -A a":                "leave it out with a name or a namespace",
		"events -A -n b":             "leave it out with a name or a namespace",
		"events --types warn":        "--types warn is not known",
		"events --types Warnin":      `did you mean "Warning"?`,
		"events -o wide":             `--output "wide" is not known: use json or yaml`,
		"why":                        "one object is needed, as KIND/NAME, such as cluster/demo",
		"why cluster/a cluster/b":    "one object is needed",
		"why cluster/a -o wide":      `--output "wide" is not known: use text, json or yaml`,
		"why cluster/a --namespace=": "--namespace without a value",
	} {
		out, _, err := execute(t, plane, strings.Fields(args)...)
		if !errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: error %v, printed %q; want misuse with %q", args, err, out, want)
		}
	}
}

func TestEventsAreThoseOfTheCluster(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"events demo":                 "LAST SEEN TYPE REASON OBJECT MESSAGE|9m Normal R Machine/m first|60s (x9) Warning R Machine/m \\x1b[2Jtwo lines|",
		"events demo --types WARNING": "LAST SEEN TYPE REASON OBJECT MESSAGE|60s (x9) Warning R Machine/m \\x1b[2Jtwo lines|",
		"events -A":                   "NAMESPACE LAST SEEN TYPE REASON OBJECT MESSAGE|fleet 60s (x9) Warning R Machine/m all|",
	} {
		out, _, err := execute(t, plane, strings.Fields(args)...)
		var got strings.Builder
		for line := range strings.Lines(out) {
			got.WriteString(strings.Join(strings.Fields(line), " ") + "|")
		}
		if got := got.String(); err != nil || got != want {
			t.Errorf("%s: %v, printed %s, want %s", args, err, got, want)
		}
	}
	out, _, err := execute(t, plane, "events", "demo", "-o", "json", "--types", "Warning")
	var list corev1.EventList
	if json.Unmarshal([]byte(out), &list) != nil || err != nil || list.Kind != "EventList" || len(list.Items) != 1 || list.Items[0].Message != "\x1b[2Jtwo\nlines" {
		t.Errorf("%v, %s", err, out)
	}
	if _, _, err := execute(t, plane, "events", "none"); !errors.As(err, new(*clusterctl.NoClusterError)) {
		t.Errorf("one that is not there: error %v", err)
	}
	empty := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/fleet/events" {
			plane(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"EventList","items":[]}`)
	}
	if out, said, err := execute(t, empty, "events", "demo"); err != nil || out != "" || said != "No events found\n" {
		t.Errorf("without Events: %v, printed %q, said %q", err, out, said)
	}
}

// TestEventsThatFollowStayInTheirColumns, with any content.
func TestEventsThatFollowStayInTheirColumns(t *testing.T) {
	t.Parallel()
	event := func(kind, message string) *corev1.Event {
		return &corev1.Event{Type: kind, Reason: "R", Message: message, Series: &corev1.EventSeries{Count: 3}, InvolvedObject: corev1.ObjectReference{Kind: "Machine", Name: "m"}}
	}
	for name, tc := range map[string]struct {
		o    eventOptions
		want string
	}{
		"a table":   {eventOptions{}, "LAST SEEN      TYPE     REASON                       OBJECT                                             MESSAGE\n<invalid> (x3) Warning  R                            Machine/m                                          a b\\x1b[2J\n<invalid> (x3) Normal   R                            Machine/m                                          c\n"},
		"of a type": {eventOptions{types: []string{"Normal"}, allNamespaces: true}, "NAMESPACE        LAST SEEN      TYPE     REASON                       OBJECT                                             MESSAGE\n                 <invalid> (x3) Normal   R                            Machine/m                                          c\n"},
		"YAML":      {eventOptions{types: []string{"Normal"}, output: "yaml"}, "apiVersion: v1\n"},
	} {
		var out bytes.Buffer
		l := &lines{env: &command.Env{Out: &out, Now: func() time.Time { return time.Time{}.Add(-time.Hour) }}, o: tc.o}
		if err := errors.Join(l.show(event("Warning", "a\nb\x1b[2J")), l.show(event("Normal", "c"))); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); tc.o.output == "" && got != tc.want || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(tc.want, got))
		}
	}
	var out bytes.Buffer
	l := &lines{env: &command.Env{Out: &out}, o: eventOptions{output: "yaml"}}
	if err := errors.Join(l.show(event("Normal", "a")), l.show(event("Normal", "b"))); err != nil || strings.Count(out.String(), "\n---\n") != 1 || strings.Count(out.String(), "kind: Event\n") != 2 {
		t.Errorf("%v, documents %s", err, out.String())
	}
}

func TestShellIsOfferedKindsThenNames(t *testing.T) {
	t.Parallel()
	names := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"of-%s"}}]}`, filepath.Base(r.URL.Path))
	}
	for typed, want := range map[string]string{
		"":               "cluster/\nkubeadmcontrolplane/\nmachinedeployment/\nmachineset/\nmachinepool/\nmachine/\n:6\n",
		"cluster/":       "cluster/of-clusters\n:4\n",
		"kcp/":           "kcp/of-kubeadmcontrolplanes\n:4\n",
		"Machine/o":      "Machine/of-machines\n:4\n",
		"machines/":      "machines/of-machines\n:4\n",
		"pod/":           ":4\n",
		"cluster/a more": ":4\n",
	} {
		words := strings.Fields(typed)
		if typed == "" || len(words) == 2 {
			words = append(words[:min(1, len(words))], "")
		}
		out, _, err := execute(t, names, append([]string{cobra.ShellCompNoDescRequestCmd, "why"}, words...)...)
		if err != nil || out != want {
			t.Errorf("%q: %v, offered %q, want %q", typed, err, out, want)
		}
	}
	if out, _, err := execute(t, names, cobra.ShellCompNoDescRequestCmd, "events", "--types", ""); err != nil || out != "Normal\nWarning\n:4\n" {
		t.Errorf("types: %v, offered %q", err, out)
	}
}

func TestLongNamesAreCutToTheirColumn(t *testing.T) {
	t.Parallel()
	for text, tc := range map[string]struct {
		most int
		want string
	}{"short": {5, "short"}, "longer": {5, "long…"}, "日本語": {4, "日…"}, "": {0, ""}, "a\u0301b\u0301c\u0301": {2, "a\u0301…"}} {
		if got := cut(text, tc.most); got != tc.want || textWidth(got) > tc.most {
			t.Errorf("%q in %d columns: %q, want %q", text, tc.most, got, tc.want)
		}
	}
	for status, want := range map[string]string{"True": "\x1b[32mTrue\x1b[0m", "Ready: False": "\x1b[31mReady: False\x1b[0m", "Unknown": "\x1b[33mUnknown\x1b[0m", "Odd": "Odd", "": ""} {
		if got := paint(status, true); got != want || strings.IndexFunc(paint(status, false), func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}
