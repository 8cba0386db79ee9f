// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// against runs a command against a management cluster with guards in the namespace ns, and
// with the Machine of UID u1. It serves no PlanGuards if guards is nil.
func against(t *testing.T, guards []planv1.PlanGuard, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	text := func(v any) string {
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const resources = `{"kind":"APIResourceList","groupVersion":"%","resources":[{"name":"#s","singularName":"#","namespaced":true,"kind":"!","verbs":["get","list"]}]}`
	group := func(name, version string) string {
		return `{"name":"` + name + `","versions":[{"groupVersion":"` + name + "/" + version + `","version":"` + version + `"}],"preferredVersion":{"groupVersion":"` + name + "/" + version + `","version":"` + version + `"}}`
	}
	groups := group("cluster.x-k8s.io", "v1beta2")
	answers := map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`,
		"/apis/cluster.x-k8s.io/v1beta2":                        strings.NewReplacer("%", "cluster.x-k8s.io/v1beta2", "#", "machine", "!", "Machine").Replace(resources),
		"/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines": `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"m1","uid":"u1"}}]}`,
	}
	if guards != nil {
		groups += "," + group("plan.capstan.dev", "v1alpha1")
		answers["/apis/plan.capstan.dev/v1alpha1"] = strings.NewReplacer("%", "plan.capstan.dev/v1alpha1", "#", "planguard", "!", "PlanGuard").Replace(resources)
		list := text(planv1.PlanGuardList{TypeMeta: metav1.TypeMeta{APIVersion: "plan.capstan.dev/v1alpha1", Kind: "PlanGuardList"}, Items: guards})
		answers["/apis/plan.capstan.dev/v1alpha1/namespaces/ns/planguards"], answers["/apis/plan.capstan.dev/v1alpha1/planguards"] = list, list
		for _, g := range guards {
			g.APIVersion, g.Kind = "plan.capstan.dev/v1alpha1", "PlanGuard"
			answers["/apis/plan.capstan.dev/v1alpha1/namespaces/ns/planguards/"+g.Name] = text(g)
		}
	}
	answers["/apis"] = `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + groups + `]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte("{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, namespace: ns}}], clusters: [{name: c, cluster: {server: '"+server.URL+"'}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	env := &command.Env{Name: "capstan", In: strings.NewReader(""), Out: &out, Err: &said, Now: time.Now, LookupEnv: func(string) (string, bool) { return "", false }}
	cmd := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}
	cmd.AddCommand(New(env), NewApply(env))
	cmd.SetArgs(append(args, "--kubeconfig", config))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), said.String(), err
}

// guard is that of a Cluster whose plan deletes the Machines with these UIDs.
func guard(name, plan string, uids ...string) planv1.PlanGuard {
	g := planv1.PlanGuard{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: planv1.PlanGuardSpec{Plan: plan, Deadline: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}}
	if plan != "" {
		g.Spec.Cluster = &planv1.Cluster{Namespace: "ns", Name: name}
		for _, uid := range uids {
			g.Spec.Cluster.Machines = append(g.Spec.Cluster.Machines, planv1.Machine{Name: "m" + uid, UID: types.UID("u" + uid), Action: planv1.Deleted})
		}
	}
	return g
}

func TestPlanListShowsWhatIsCarriedOut(t *testing.T) {
	t.Parallel()
	held := guard("held", "0123456789ab", "1", "2")
	held.Status.Held = []planv1.Held{{Kind: "Machine", Name: "m\x1b[2J", User: "eve", What: "deleted"}, {Kind: "MachinePool", Name: "p", User: "eve", What: "scaled down"}}
	required := guard("required", "")
	required.Spec.Required = true
	odd := guard("odd", "cdef") // as another writer may leave it
	odd.Spec.Cluster = nil
	for name, tc := range map[string]struct {
		guards []planv1.PlanGuard
		args   []string
		want   string
	}{
		"no guards":             {nil, nil, "No plan is being carried out, and no cluster requires one.\n"},
		"none of a kind":        {[]planv1.PlanGuard{}, nil, "No plan is being carried out, and no cluster requires one.\n"},
		"guards":                {[]planv1.PlanGuard{held, required, odd}, nil, "CLUSTER PLAN DEADLINE MACHINES LEFT REQUIRED HELD BACK\nns/held 0123456789ab 2026-01-02T03:04:05Z 1 of 2 false machine/m\\x1b[2J, machinepool/p\nns/required true\nns/odd cdef 2026-01-02T03:04:05Z false\n"},
		"of all namespaces":     {[]planv1.PlanGuard{required}, []string{"-A"}, "CLUSTER PLAN DEADLINE MACHINES LEFT REQUIRED HELD BACK\nns/required true\n"},
		"no guards, as a list":  {nil, []string{"-o", "yaml"}, "apiVersion: plan.capstan.dev/v1alpha1\nitems: null\nkind: PlanGuardList\n"},
		"of an empty namespace": {[]planv1.PlanGuard{}, []string{"-n", "ns"}, "No plan is being carried out, and no cluster requires one.\n"},
	} {
		out, _, err := against(t, tc.guards, append([]string{"plan", "list"}, tc.args...)...)
		var got strings.Builder
		for line := range strings.Lines(out) {
			if tc.args == nil || tc.args[0] != "-o" {
				line = strings.Join(strings.Fields(line), " ") + "\n"
			}
			got.WriteString(line)
		}
		if diff := cmp.Diff(tc.want, got.String()); err != nil || diff != "" {
			t.Errorf("%s: %v, plans (-want +got):\n%s", name, err, diff)
		}
	}
	out, _, err := against(t, []planv1.PlanGuard{held}, "plan", "list", "-o", "json")
	var list planv1.PlanGuardList
	if json.Unmarshal([]byte(out), &list) != nil || err != nil || list.Kind != "PlanGuardList" || len(list.Items) != 1 || list.Items[0].Spec.Plan != "0123456789ab" {
		t.Errorf("%v, %s", err, out)
	}
}

// saved writes a saved plan of a Cluster, and returns its file.
func saved(t *testing.T, c planv1.Cluster) string {
	t.Helper()
	s := planv1.SavedPlan{TypeMeta: metav1.TypeMeta{APIVersion: planv1.APIVersion, Kind: planv1.SavedKind}, Plan: planv1.Plan{Clusters: []planv1.Cluster{c}}}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	s.Checksum = hex.EncodeToString(sum[:])
	file := filepath.Join(t.TempDir(), "change.plan")
	if err := changeplan.WriteSaved(file, &s); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPlansAreShownAndCompared(t *testing.T) {
	t.Parallel()
	running := guard("demo", "0123456789ab", "1", "2")
	running.Status.Held = []planv1.Held{{Kind: "Machine", Name: "m3", User: "eve", What: "deleted", Why: "x"}}
	odd := guard("odd", "cdef")
	odd.Spec.Cluster = nil
	strange := guard("strange", "ef", "1", "2")
	strange.Spec.Cluster.Machines[0].Action = "Exploded"
	guards := []planv1.PlanGuard{running, guard("required", ""), odd, strange}
	same, kept := *running.Spec.Cluster.DeepCopy(), *running.Spec.Cluster.DeepCopy()
	kept.Machines[0].Action = planv1.Kept
	first, second := saved(t, same), saved(t, kept)
	const shown = "Cluster ns/demo\nMachines: 0 kept, 0 changed in place, 0 replaced, 2 deleted, 0 created\n"
	const equal = "Each machine has the same fate in both plans.\n"
	for name, tc := range map[string]struct {
		args      []string
		out, said string
		status    int
	}{
		"that of a Cluster":      {[]string{"show", "cluster/demo"}, shown, "Held back: Machine m3 is not deleted (x), as eve requested at ", 0},
		"by the name of a group": {[]string{"show", "Cluster.cluster.x-k8s.io/demo", "--details"}, shown, "Held back: ", 0},
		"one that only requires": {[]string{"show", "cluster/required"}, "", "no plan of Cluster ns/required is being carried out", 1},
		"one without content":    {[]string{"show", "cluster/odd"}, "", "no plan of Cluster ns/odd is being carried out", 1},
		"one of another version": {[]string{"show", "cluster/strange"}, "Cluster ns/strange\nMachines: 0 kept, 0 changed in place, 0 replaced, 1 deleted, 0 created, 1 not predicted\n", "", 0},
		"one that is not there":  {[]string{"show", "cluster/none"}, "", "no plan of Cluster ns/none is being carried out", 1},
		"a file":                 {[]string{"show", first, "-o", "json"}, "{\n", "", 0},
		"the same":               {[]string{"diff", first, "cluster/demo"}, equal, "", 0},
		"a file and itself":      {[]string{"diff", second, second}, equal, "", 0},
		"another":                {[]string{"diff", first, second}, "Cluster ns/demo: Machine m1: gone in the first plan, and kept\n", "the plans differ", 2},
		"release of none":        {[]string{"-", "--release", "cluster/required"}, "", "it requires plans, which ends with", 1},
		"release of a Machine":   {[]string{"-", "--release", "machine/m"}, "", "--release ", 1},
	} {
		args := append([]string{"plan"}, tc.args...)
		if tc.args[0] == "-" {
			args = append([]string{"apply"}, tc.args[1:]...)
		}
		out, said, err := against(t, guards, args...)
		if err != nil {
			said += err.Error()
		}
		if got := exit(err); got != tc.status || !strings.HasPrefix(out, tc.out) || tc.out == "" && out != "" || !strings.Contains(said, tc.said) {
			t.Errorf("%s: status %d, printed %q, said %q", name, got, out, said)
		}
	}
}

// TestPlansThatAreNotWholeAreRefused before anything is asked.
func TestPlansThatAreNotWholeAreRefused(t *testing.T) {
	t.Parallel()
	file := saved(t, planv1.Cluster{Namespace: "ns", Name: "demo"})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"cut off":      {string(text[:len(text)/2]), "is no saved plan, or is cut off"},
		"changed":      {strings.Replace(string(text), "demo", "prod", 1), "was changed after it was saved"},
		"another kind": {strings.Replace(string(text), planv1.SavedKind, "Other", 1), "save the plan with `capstan plan --save`"},
		"empty":        {"", "is no saved plan"},
	} {
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"plan", "show", file}, {"plan", "diff", file, file}, {"apply", file}} {
			if _, _, err := against(t, nil, args...); exit(err) != 1 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s, %q: status %d, error %v", name, args[:2], exit(err), err)
			}
		}
	}
}

// TestFlagsWithoutAValueAreNotTheirDefaults: a plan would not be saved, and no one
// would see it.
func TestFlagsWithoutAValueAreNotTheirDefaults(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"plan -f x --save=", "plan -f x --namespace=", "plan --set= a=b", "plan --filename=", "plan list --namespace=", "apply --release=", "plan show x --output="} {
		if err := executeAll(t, strings.Fields(args)...); exit(err) != 1 || !strings.Contains(err.Error(), " without a value: give one, or leave the flag out") {
			t.Errorf("%s: status %d, error %v", args, exit(err), err)
		}
	}
}
