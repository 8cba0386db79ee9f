// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/carryout"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestMisuseOfSavedPlansHasStatusOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no file":                {[]string{"apply"}, "one file is needed"},
		"two files":              {[]string{"apply", "a", "b"}, "one file is needed"},
		"a file and a release":   {[]string{"apply", "a", "--release", "cluster/b"}, "it takes no file"},
		"a negative deadline":    {[]string{"apply", "a", "--deadline", "-1m"}, "--deadline -1m"},
		"an unknown flag":        {[]string{"apply", "--none"}, "--none"},
		"a kubeconfig":           {[]string{"apply", "a"}, "none"},
		"list of what":           {[]string{"plan", "list", "a"}, `"a" is not expected`},
		"show of nothing":        {[]string{"plan", "show"}, "one saved plan, or one cluster"},
		"show of no plan":        {[]string{"plan", "show", "none.plan"}, "none.plan"},
		"diff of one":            {[]string{"plan", "diff", "a"}, "two plans are needed"},
		"diff of what is not":    {[]string{"plan", "diff", "none.plan", "cluster/b"}, "none.plan"},
		"show, of another kind":  {[]string{"plan", "show", "clusterclass/a"}, "clusterclass"},
		"list with a bad output": {[]string{"plan", "list", "-o", "xml"}, "xml"},
	} {
		if err := executeAll(t, tc.args...); exit(err) != 1 || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: status %d, error %v", name, exit(err), err)
		}
	}
}

func TestPlanDifferencesAreByCluster(t *testing.T) {
	t.Parallel()
	cluster := func(name string, action planv1.Action, why *planv1.NotPredicted) planv1.Cluster {
		return planv1.Cluster{Namespace: "ns", Name: name, Machines: []planv1.Machine{{Name: name + "-1", Action: action}}, NotPredicted: why}
	}
	unknown := &planv1.NotPredicted{Reason: planv1.NotAtRest}
	was := planv1.Plan{Clusters: []planv1.Cluster{cluster("a", planv1.Kept, nil), cluster("b", planv1.Kept, nil), cluster("c", planv1.Kept, nil), cluster("d", planv1.Kept, nil), cluster("e", "", unknown)}}
	is := planv1.Plan{Clusters: []planv1.Cluster{cluster("a", planv1.Kept, nil), cluster("b", planv1.Deleted, nil), cluster("c", "", unknown), cluster("e", planv1.Kept, nil), cluster("f", planv1.Kept, nil)}}
	was.Clusters[0].Pools = []planv1.Pool{{Name: "p", Before: 5, Then: 3}, {Name: "q", Before: 1, Then: 1}}
	is.Clusters[0].Pools = []planv1.Pool{{Name: "p", Before: 9, Then: 3}, {Name: "q", Before: 1, Then: 1}, {Name: "s", Before: 2}}
	want := []string{
		"Cluster ns/a: MachinePool p: 5 replicas, then 3 in the first plan, and 9 replicas, then 3",
		"Cluster ns/a: MachinePool s: unchanged in the first plan, and 2 replicas, then 0",
		"Cluster ns/b: Machine b-1: kept in the first plan, and gone",
		"Cluster ns/c: not predicted (NotAtRest)",
		"Cluster ns/e: predicted now",
		"Cluster ns/f: not in the first plan",
		"Cluster ns/d: not in the second plan",
	}
	if diff := cmp.Diff(want, planDifferences(was, is)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := planDifferences(was, was); len(got) > 0 {
		t.Errorf("a plan differs from itself: %v", got)
	}
}

func TestReportNamesWhatWasNotCarriedOut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	env := &command.Env{Err: &out}
	err := report(env, []carryout.Outcome{
		{Cluster: client.ObjectKey{Namespace: "ns", Name: "a"}, End: carryout.CarriedOut},
		{Cluster: client.ObjectKey{Namespace: "ns", Name: "b"}, End: carryout.HeldBack, Held: []planv1.Held{{Kind: "Machine", Name: "m", User: "eve", What: "deleted"}}},
		{Cluster: client.ObjectKey{Namespace: "ns", Name: "c"}, End: carryout.Expired, Differences: []string{"first", "second"}},
	})
	if err == nil || err.Error() != "the plan of Cluster ns/c was not carried out before its deadline" {
		t.Errorf("error %v", err)
	}
	want := `Cluster ns/a: carried out
Cluster ns/b: carried out; other objects were held back
  Held back: Machine m, which eve asked to be deleted
Cluster ns/c: not carried out before its deadline
  First difference from the plan: first
  second
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
