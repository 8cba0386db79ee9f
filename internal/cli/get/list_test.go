// SPDX-License-Identifier: Apache-2.0

package get

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// against runs get with arguments against an API server, and returns what it
// prints on stdout and stderr.
func against(ctx context.Context, t *testing.T, server http.HandlerFunc, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL}
	cfg.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", Namespace: "fleet"}
	cfg.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC) }
	cmd := New(&command.Env{Out: &out, Err: &talk, Now: now, LookupEnv: func(string) (string, bool) { return "", false }})
	cmd.SetArgs(append(args, "--kubeconfig", path))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(ctx)
	return out.String(), talk.String(), err
}

// tableOfOne is a table with a row for an object.
func tableOfOne(name, cell, version string) string {
	text, err := json.Marshal(cell)
	if err != nil {
		panic(err) // a string can be
	}
	return fmt.Sprintf(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":%q},
"columnDefinitions":[{"name":"Name","type":"string"},{"name":"Phase","type":"string"},{"name":"Count","type":"integer"},{"name":"More","type":"string","priority":1}],
"rows":[{"cells":[%[2]q,%[3]s,1000000,"more"],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%[2]q,"namespace":"fleet","resourceVersion":%[1]q}}}]}`, version, name, text)
}

func TestATableOfTheServerIsPrintedAsKubectlDoes(t *testing.T) {
	t.Parallel()
	var asked []string
	server := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		_, _ = w.Write([]byte(tableOfOne("demo", "\x1b[2J\u009b31m\u202e\nforged", "1")))
	}
	stdout, _, err := against(t.Context(), t, server, "clusters", "-A", "-l", "a=b", "-o", "wide")
	if err != nil {
		t.Fatal(err)
	}
	want := "NAMESPACE   NAME   PHASE                           COUNT     MORE\nfleet       demo   \\x1b[2J\\u009b31m\\u202e forged   1000000   more\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/apis/cluster.x-k8s.io/v1beta2/clusters?includeObject=Metadata&labelSelector=a%3Db"}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestWatchResumesOrRestarts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked []string
	server := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, "watch "+r.URL.Query().Get("watch")+" from "+r.URL.Query().Get("resourceVersion"))
		var answer string
		switch len(asked) {
		case 1:
			answer = tableOfOne("a", "one", "5")
		case 2:
			answer = `{"type":"MODIFIED","object":` + tableOfOne("a", "two", "6") + `}{"type":"BOOKMARK","object":` + tableOfOne("a", "", "9") + `}`
		case 3:
			answer = `{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}`
		case 4:
			answer = tableOfOne("a", "three", "20")
		default:
			cancel()
		}
		_, _ = w.Write([]byte(answer))
	}
	stdout, _, err := against(ctx, t, server, "machines", "a", "--watch")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("NAME   PHASE   COUNT\na      one     1000000\na      two     1000000\na      three   1000000\n", stdout); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"watch  from ", "watch true from 5", "watch true from 9", "watch  from ", "watch true from 20"}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAnAnswerThatIsNoTableIsNamed(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"kind":"ClusterList","items":[]}`: `the management cluster answers with "ClusterList" and not with a table: use -o json`,
		"<html>":                            "read the answer of the management cluster: invalid character '<' looking for beginning of value",
	} {
		_, _, err := against(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }, "clusters")
		if err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", answer, err, want)
		}
	}
}

func TestListReportsMisuseBeforeRequests(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"clusters -o jso":            `did you mean "json"?`,
		"clusters -o jsonpath":       "--output jsonpath needs a template",
		"clusters -o jsonpath={.a":   "--output jsonpath: ",
		"clusters a -A":              "leave it out with names",
		"clusters a -l x=y":          "leave it out with names",
		"clusters a b -w":            "--watch follows all objects, or one name",
		"clusters -A -n x":           "contradict each other",
		"clusters --selector=":       "--selector without a value",
		"machines -o go-template={{": "--output go-template: ",
	} {
		_, _, err := against(t.Context(), t, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the API server is asked", args) }, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(command.UsageError)) {
			t.Errorf("%s: error %v, want misuse with %q", args, err, want)
		}
	}
}

func TestNodesAreListedAsKubectlDoes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := func(name string, ready corev1.ConditionStatus, labels ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-90 * time.Second)), Labels: map[string]string{}}}
		for _, l := range labels {
			n.Labels[l] = ""
		}
		n.Status.NodeInfo.KubeletVersion = "v1.36.3"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	cordoned := node("w2", corev1.ConditionUnknown)
	cordoned.Spec.Unschedulable = true
	hostile := node("w3", corev1.ConditionTrue, "node-role.kubernetes.io/\x1b[31m")
	hostile.Status.NodeInfo.KubeletVersion = "v1\x1b[2J\nw4\tReady"
	var out bytes.Buffer
	env := &command.Env{Out: &out, Now: func() time.Time { return now }}
	err := writeNodes(env, []corev1.Node{
		node("cp", corev1.ConditionTrue, "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/a"),
		node("w1", corev1.ConditionFalse, "kubernetes.io/os"),
		cordoned,
		hostile,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `NAME   STATUS                       ROLES             AGE   VERSION
cp     Ready                        a,control-plane   90s   v1.36.3
w1     NotReady                     <none>            90s   v1.36.3
w2     Unknown,SchedulingDisabled   <none>            90s   v1.36.3
w3     Ready                        \x1b[31m          90s   v1\x1b[2J w4 Ready
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
