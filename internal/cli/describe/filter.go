// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

// filter is the value of --show-conditions: kinds or kind/name pairs in lower
// case, or "all"; a suffix "+" keeps only what needs attention.
type filter map[string]bool // selector -> only those that need attention

// parseFilter reads a comma-separated list of selectors.
func parseFilter(s string) (filter, error) {
	f := filter{}
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		if strings.ContainsFunc(part, unicode.IsSpace) {
			return nil, command.Misuse(fmt.Errorf("--show-conditions %q: no blanks are allowed", s))
		}
		name, attention := strings.CutSuffix(strings.ToLower(part), "+")
		f[name] = attention
	}
	return f, nil
}

// check refuses a selector that can choose nothing of in, as a mistyped one.
func (f filter) check(in *tree.Input) error {
	kinds := []string{"Cluster", "MachineDeployment", "MachineSet", "MachinePool", "MachineHealthCheck", "Machine"}
	known := map[string]bool{"all": true}
	for _, o := range in.Objects() {
		kinds = append(kinds, o.Kind)
		known[selectorOf(o)] = true
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	for _, kind := range kinds {
		known[strings.ToLower(kind)] = true
	}
	for _, selector := range slices.Sorted(maps.Keys(f)) {
		if known[selector] {
			continue
		}
		meant := ""
		if near := suggest.Of(selector, slices.Sorted(maps.Keys(known))); near != "" {
			meant = fmt.Sprintf(" (did you mean %s?)", near)
		}
		return command.Misuse(fmt.Errorf("--show-conditions %s: the cluster has no such object%s: choose all, or among %s, each alone or as KIND/NAME", selector, meant, strings.Join(kinds, ", ")))
	}
	return nil
}

// match reports whether the conditions of o are shown, and whether only those that
// need attention are.
func (f filter) match(o *tree.Object) (show, attention bool) {
	for _, selector := range []string{selectorOf(o), strings.ToLower(o.Kind), "all"} {
		if attention, ok := f[selector]; ok {
			return true, attention
		}
	}
	return false, false
}

// chosen are the conditions of o that are shown.
func (f filter) chosen(o *tree.Object) (out []metav1.Condition) {
	show, attention := f.match(o)
	for i := range o.Conditions {
		if show && (!attention || needsAttention(&o.Conditions[i])) {
			out = append(out, o.Conditions[i])
		}
	}
	return out
}

// alone reports whether o cannot share a row: else the owner of the conditions
// below it would be unclear.
func (f filter) alone(o *tree.Object) bool { return len(f.chosen(o)) > 0 }

// selectorOf is the selector of one object.
func selectorOf(o *tree.Object) string { return strings.ToLower(o.Kind + "/" + o.Name) }

// negative are the conditions that are good when False.
var negative = []string{
	clusterv1.DeletingCondition, clusterv1.PausedCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition, clusterv1.RemediatingCondition, clusterv1.MachineUpdatingCondition,
}

func needsAttention(c *metav1.Condition) bool {
	good := metav1.ConditionTrue
	if slices.Contains(negative, c.Type) {
		good = metav1.ConditionFalse
	}
	return c.Status != good
}
