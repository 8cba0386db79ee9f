// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon.Add(-90 * time.Second))}
}

func owned(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: name}}
}

func machine(name, ownerKind, ownerName string, status metav1.ConditionStatus, message string) tree.Machine {
	reason := "Ready"
	if status != metav1.ConditionTrue {
		reason = "NotReady"
	}
	return tree.Machine{
		Object: tree.Object{Kind: "Machine", Name: name, Owners: owned(ownerKind, ownerName), Conditions: []metav1.Condition{
			condition("Available", status, reason, ""), condition("Ready", status, reason, message), condition("UpToDate", "True", "UpToDate", ""),
		}},
		Infrastructure: &tree.Object{Kind: "LocalMachine", Name: name, Conditions: []metav1.Condition{condition("Ready", status, "VM"+reason, message)}},
	}
}

func demo() tree.Input {
	three, two := int32(3), int32(2)
	return tree.Input{
		Cluster:        tree.Object{Kind: "Cluster", Name: "demo", Version: "v1.36.3", Paused: true, Conditions: []metav1.Condition{condition("Available", "False", "NotAvailable", "* WorkersAvailable:\n  * MachineDeployment w: 1 of 2")}},
		Infrastructure: &tree.Object{Kind: "LocalCluster", Name: "demo", Conditions: []metav1.Condition{condition("Ready", "True", "Ready", "")}},
		ControlPlane: &tree.Object{Kind: "KubeadmControlPlane", Name: "cp", Conditions: []metav1.Condition{condition("Available", "True", "Available", ""), condition("Remediating", "True", "Remediating", "one")},
			Replicas: tree.Counters{Desired: &three, Current: &three, Ready: &three, Available: &three, UpToDate: &three}},
		MachineDeployments: []tree.Object{{Kind: "MachineDeployment", Name: "w", Conditions: []metav1.Condition{condition("Available", "False", "NotAvailable", "1 of 2")},
			Replicas: tree.Counters{Desired: &two, Current: &two, Ready: new(int32(1))}}},
		MachineSets: []tree.Object{{Kind: "MachineSet", Name: "w-1", Owners: owned("MachineDeployment", "w")}},
		Machines: []tree.Machine{
			machine("cp-1", "KubeadmControlPlane", "cp", "True", ""), machine("cp-2", "KubeadmControlPlane", "cp", "True", ""), machine("cp-3", "KubeadmControlPlane", "cp", "True", ""),
			machine("w-1-a", "MachineSet", "w-1", "True", ""), machine("w-1-b", "MachineSet", "w-1", "False", "* NodeHealthy: waiting"),
			machine("lone", "Cluster", "demo", "True", ""),
		},
		ResourceSets: []tree.Object{{Kind: "ClusterResourceSet", Name: "cni", Conditions: []metav1.Condition{condition("ResourcesApplied", "False", "NotApplied", "ConfigMap cni is missing")}}},
		MachinePools: []tree.Machine{{Object: tree.Object{Kind: "MachinePool", Name: "pool", Version: "v1.36.3", Conditions: []metav1.Condition{condition("Available", "True", "Available", "")}},
			Infrastructure: &tree.Object{Kind: "LocalMachinePool", Name: "pool", Conditions: []metav1.Condition{condition("Ready", "False", "Scaling", "1 of 2")}}}},
		HealthChecks: []tree.Object{
			{Kind: "MachineHealthCheck", Name: "cp", Replicas: tree.Counters{Desired: &three, Current: &three, Ready: &three},
				Conditions: []metav1.Condition{condition("RemediationAllowed", "True", "RemediationAllowed", ""), condition("Sound", "False", "SelectedByAnother", "older")}},
			{Kind: "MachineHealthCheck", Name: "w", Replicas: tree.Counters{Desired: &two, Current: &two, Ready: new(int32(0))},
				Conditions: []metav1.Condition{condition("RemediationAllowed", "False", "TooManyUnhealthy", "2 of 2"), condition("Sound", "True", "Sound", "")}},
		},
	}
}

func TestWriteTree(t *testing.T) {
	tests := map[string]struct {
		file       string
		options    tree.Options
		conditions string
		within     int
	}{
		"quiet by default":                 {file: "quiet.txt", options: tree.Options{Grouping: true}},
		"every object":                     {file: "everything.txt", options: tree.Options{ShowMachineSets: true, ShowResourceSets: true, Echo: true}},
		"on a narrow terminal":             {file: "narrow.txt", options: tree.Options{Grouping: true}, within: 170},
		"on a terminal of 80 columns":      {file: "columns80.txt", options: tree.Options{Grouping: true}, within: 80},
		"conditions that need attention":   {file: "attention.txt", options: tree.Options{Grouping: true}, conditions: "kubeadmcontrolplane/CP+"},
		"a machine that is named":          {file: "machine.txt", options: tree.Options{Grouping: true}, conditions: "machine/cp-2"},
		"all conditions of the deployment": {file: "conditions.txt", options: tree.Options{Grouping: true}, conditions: "MachineDeployment"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := parseFilter(tc.conditions)
			if err != nil {
				t.Fatal(err)
			}
			tc.options.Alone = f.alone
			var out bytes.Buffer
			if err := render(&out, tree.Build(demo(), tc.options), style{now: noon, conditions: f, within: tc.within}); err != nil {
				t.Fatal(err)
			}
			builder.Golden(t, tc.file, out.String())
		})
	}
}

// TestTreeFitsTheTerminal of 80 columns or more, with names and messages of any
// length; what is on every line is the name and the status.
func TestTreeFitsTheTerminal(t *testing.T) {
	t.Parallel()
	long := demo()
	long.Cluster.Name = strings.Repeat("long-name-", 12)
	for _, in := range []tree.Input{demo(), long} {
		for within := 80; within < 240; within += 7 {
			var out bytes.Buffer
			if err := render(&out, tree.Build(in, tree.Options{ShowMachineSets: true, ShowResourceSets: true, Echo: true}), style{now: noon, within: within}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if n := textWidth(strings.TrimRight(line, "\n")); n > within {
					t.Fatalf("%d columns on a terminal of %d: %s", n, within, line)
				}
			}
			head, _, _ := strings.Cut(out.String(), "\n")
			for _, column := range []string{"NAME", "STATUS", "MESSAGE"} {
				if !strings.Contains(head, column) {
					t.Errorf("within %d columns: no %s in %s", within, column, head)
				}
			}
		}
	}
}

// TestWriteTreeOfAClass shows the source of a Cluster, and its progress.
func TestWriteTreeOfAClass(t *testing.T) {
	t.Parallel()
	variables := func(status metav1.ConditionStatus, message string) metav1.Condition {
		return condition("VariablesReady", status, "R", message)
	}
	for name, tc := range map[string]struct {
		cluster, class []metav1.Condition
		want           []string // Cluster, class
	}{
		"in steady state": {[]metav1.Condition{condition("Available", "True", "Available", ""), condition("TopologyReconciled", "True", "ReconcileSucceeded", "")},
			[]metav1.Condition{variables("True", ""), condition("RefVersionsUpToDate", "True", "RefVersionsUpToDate", "")},
			[]string{"Cluster/demo Available: True Available 90s", "ClusterClass/x VariablesReady: True R 90s"}},
		"on its way": {[]metav1.Condition{condition("Available", "True", "Available", ""), condition("TopologyReconciled", "False", "ClusterUpgrading", "Cluster is upgrading to v1.37.0")}, nil,
			[]string{"Cluster/demo TopologyReconciled: False ClusterUpgrading 90s Cluster is upgrading to v1.37.0", "ClusterClass/x"}},
		"waiting for its class": {[]metav1.Condition{condition("Available", "False", "NotAvailable", "* TopologyReconciled: no"), condition("TopologyReconciled", "False", "ClusterClassNotReconciled", "no")},
			[]metav1.Condition{condition("RefVersionsUpToDate", "Unknown", "InternalError", "no template"), variables("False", "no answer")},
			[]string{"Cluster/demo Available: False NotAvailable 90s * TopologyReconciled: no", "ClusterClass/x VariablesReady: False R 90s no answer"}},
		"with a template that has gone": {nil, []metav1.Condition{variables("True", ""), condition("RefVersionsUpToDate", "Unknown", "InternalError", "no template")},
			[]string{"Cluster/demo", "ClusterClass/x RefVersionsUpToDate: Unknown InternalError 90s no template"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := tree.Input{
				Cluster: tree.Object{Kind: "Cluster", Name: "demo", Conditions: tc.cluster},
				Class:   &tree.Object{Kind: "ClusterClass", Name: "x", Conditions: tc.class},
			}
			var out bytes.Buffer
			if err := render(&out, tree.Build(in, tree.Options{}), style{now: noon}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				got = append(got, strings.Join(strings.Fields(strings.TrimPrefix(line, "└─")), " "))
			}
			if diff := cmp.Diff(tc.want, got[1:]); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionsCannotCommandTheTerminal(t *testing.T) {
	hostile := "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\r"
	in := demo()
	in.Cluster.Name += hostile
	in.Cluster.Conditions = []metav1.Condition{condition("Available"+hostile, "False", "Reason"+hostile+"\nforged", hostile+"\nCluster/forged   Available: True")}
	in.Infrastructure.Conditions[0].Reason = hostile
	var out bytes.Buffer
	if err := render(&out, tree.Build(in, tree.Options{}), style{now: noon, conditions: filter{"all": false}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q is printed", r)
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "Cluster/forged") || strings.HasPrefix(line, "forged") {
			t.Errorf("a message forged the row %q", line)
		}
	}
}

func TestTheTreeForProgramsStaysAsItIs(t *testing.T) {
	in := demo()
	in.Cluster.Namespace, in.Cluster.UID, in.Cluster.Created = "fleet", "1", metav1.NewTime(noon)
	in.Cluster.Labels = map[string]string{"tier": "gold"}
	in.Machines = in.Machines[2:5]
	got, err := json.MarshalIndent(tree.Build(in, tree.Options{Grouping: true}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	builder.Golden(t, "tree.json", string(got)+"\n")
}

func TestMessagesAreWrapped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		message string
		most    int
		want    []string
	}{
		"nothing":                   {"", 10, []string{""}},
		"as wide as allowed":        {"0123456789", 10, []string{"0123456789"}},
		"at a blank":                {"one two three", 8, []string{"one two", "three"}},
		"a long word":               {"0123456789abc", 10, []string{"0123456789", "abc"}},
		"an item of a list":         {"* one two three", 10, []string{"* one two", "  three"}},
		"an item below it":          {"* a:\n  * one two three", 12, []string{"* a:", "  * one two", "    three"}},
		"wide letters":              {"日本語日本語日本語", 10, []string{"日本語日本", "語日本語"}},
		"wide letters in halves":    {"日本語日本語", 9, []string{"日本語日", "本語"}},
		"letters of several runes":  {"e\u0301e\u0301e\u0301e\u0301", 4, []string{"e\u0301e\u0301e\u0301e\u0301"}},
		"blanks, and no end":        {strings.Repeat(" ", 20) + "a b", 8, []string{"", "a b"}},
		"not at all":                {"one two three", 0, []string{"one two three"}},
		"one column, of two needed": {"日本", 1, []string{"日", "本"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, wrap(tc.message, tc.most)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestColumnsAlignWithWideCharacters(t *testing.T) {
	t.Parallel()
	in := tree.Input{Cluster: tree.Object{Kind: "Cluster", Name: "demo"}, Infrastructure: &tree.Object{Kind: "機械", Name: "x", Version: "v1"},
		ControlPlane: &tree.Object{Kind: "Plane", Name: "y", Version: "v1"}}
	var out bytes.Buffer
	if err := render(&out, tree.Build(in, tree.Options{}), style{now: noon}); err != nil {
		t.Fatal(err)
	}
	var at []int
	for line := range strings.Lines(out.String()) {
		if before, _, ok := strings.Cut(line, "v1"); ok {
			at = append(at, textWidth(before))
		}
	}
	if len(at) != 2 || at[0] != at[1] {
		t.Errorf("the versions stand in columns %d:\n%s", at, out.String())
	}
}

func TestARedrawnTreeFitsTheTerminal(t *testing.T) {
	t.Parallel()
	if got, want := redrawn("a\nb\nc\nd\n", 4), "\x1b[Ha\x1b[K\nb\x1b[K\n... and 2 more lines\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := redrawn("a\n", 0), "\x1b[Ha\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAFilterRefusesBlanks(t *testing.T) {
	_, err := parseFilter("machine, cluster")
	if want := `--show-conditions "machine, cluster": no blanks are allowed`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestConditionsOfWhatIsNotThereAreMisuse(t *testing.T) {
	tests := map[string]string{ // to the text of the error
		"":                             "",
		"all+":                         "",
		"machine,MachineSet+":          "",
		"LocalMachine":                 "",
		"kubeadmcontrolplane/CP+":      "",
		"machinepool":                  "", // a kind that every cluster may have
		"machin":                       "--show-conditions machin: the cluster has no such object (did you mean machine?): choose all, or among Cluster, ClusterResourceSet, KubeadmControlPlane, LocalCluster, LocalMachine, LocalMachinePool, Machine, MachineDeployment, MachineHealthCheck, MachinePool, MachineSet, each alone or as KIND/NAME",
		"machine,kubeadmcontrolplanes": "--show-conditions kubeadmcontrolplanes: ",
		"machine/missing":              "--show-conditions machine/missing: ",
		"+":                            "--show-conditions : ",
	}
	for text, want := range tests {
		f, err := parseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		in := demo()
		err = f.check(&in)
		if (want == "") != (err == nil) || err != nil && (!strings.HasPrefix(err.Error(), want) || !errors.As(err, new(command.UsageError))) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
