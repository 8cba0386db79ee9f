// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/plaintext"
)

// treeStyle says how a tree is shown.
type treeStyle struct {
	now   time.Time
	color bool
	// conditions chooses the objects whose conditions are all shown, and
	// whether only those that need attention are.
	conditions conditionFilter
}

// conditionFilter is the value of --show-conditions: kinds or kind/name pairs
// in lower case, or "all"; a suffix "+" keeps only what needs attention.
type conditionFilter map[string]bool // selector -> only those that need attention

// parseConditionFilter reads a comma-separated list of selectors.
func parseConditionFilter(s string) (conditionFilter, error) {
	f := conditionFilter{}
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		if strings.ContainsAny(part, " \t") {
			return nil, command.Misuse(fmt.Errorf("--show-conditions %q: no blanks are allowed", s))
		}
		name, attention := strings.CutSuffix(strings.ToLower(part), "+")
		f[name] = attention
	}
	return f, nil
}

// check refuses a selector that can choose nothing of in, as a mistyped one.
func (f conditionFilter) check(in *tree.Input) error {
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
		if !known[selector] {
			return command.Misuse(fmt.Errorf("--show-conditions %s: the cluster has no such object: choose all, or among %s, each alone or as KIND/NAME", selector, strings.Join(kinds, ", ")))
		}
	}
	return nil
}

// match reports whether the conditions of o are asked for, and whether only
// those that need attention are.
func (f conditionFilter) match(o *tree.Object) (show, attention bool) {
	for _, selector := range []string{selectorOf(o), strings.ToLower(o.Kind), "all"} {
		if attention, ok := f[selector]; ok {
			return true, attention
		}
	}
	return false, false
}

// named reports whether o itself is asked for by its name.
func (f conditionFilter) named(o *tree.Object) bool {
	_, ok := f[selectorOf(o)]
	return ok
}

// selectorOf is the selector of one object.
func selectorOf(o *tree.Object) string { return strings.ToLower(o.Kind + "/" + o.Name) }

var treeHeader = []string{"NAME", "REPLICAS", "AVAILABLE", "READY", "UP TO DATE", "STATUS", "REASON", "SINCE", "MESSAGE"}

// messageColumn is the last column, the only one whose cells have many lines.
const messageColumn = 8

// writeTree prints a tree as a table without borders.
func writeTree(w io.Writer, root *tree.Node, s treeStyle) error {
	t := &table{rows: [][]string{treeHeader}}
	t.node(root, "", "", s)
	return t.write(w, s.color)
}

type table struct{ rows [][]string }

// node adds the rows of n and of what is below it. first and rest are what
// stands before the name in its first and in all later lines.
func (t *table) node(n *tree.Node, first, rest string, s treeStyle) {
	name := n.Title
	if n.Role != "" {
		name = n.Role + " - " + name
	}
	below := rest
	if len(n.Children) > 0 {
		below = rest + "│ "
	}
	cells := make([]string, len(treeHeader))
	if n.Object != nil {
		cells = objectCells(n, s.now)
	}
	cells[0] = first + name
	t.add(cells, below)
	if n.Object != nil {
		t.conditions(n.Object, below, s)
	}
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			t.node(child, rest+"└─", rest+"  ", s)
		} else {
			t.node(child, rest+"├─", rest+"│ ", s)
		}
	}
}

// add splits the lines of the message over several rows. The rest of a row is one
// line, and nothing in it can command the terminal, whoever wrote it.
func (t *table) add(cells []string, below string) {
	for i, cell := range cells[:messageColumn] {
		cells[i] = plaintext.Escape(strings.ReplaceAll(cell, "\n", " "))
	}
	lines := strings.Split(plaintext.Escape(cells[messageColumn]), "\n")
	cells[messageColumn] = lines[0]
	t.rows = append(t.rows, cells)
	for _, line := range lines[1:] {
		more := make([]string, len(treeHeader))
		more[0], more[messageColumn] = below, line
		t.rows = append(t.rows, more)
	}
}

func (t *table) conditions(o *tree.Object, below string, s treeStyle) {
	show, attention := s.conditions.match(o)
	if !show {
		return
	}
	for i := range o.Conditions {
		c := &o.Conditions[i]
		if attention && !needsAttention(c) {
			continue
		}
		cells := make([]string, len(treeHeader))
		cells[0] = below + "  " + c.Type
		conditionCells(cells, c, s.now)
		t.add(cells, below)
	}
}

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

// further are what kinds tell by that have neither Available nor Ready, and what a
// Cluster tells beside: it may be available while its topology is on its way. One that
// needs attention goes before one that does not.
var further = []string{
	clusterv1.MachineHealthCheckRemediationAllowedCondition, clusterv1.MachineHealthCheckSoundCondition,
	clusterv1.ClusterClassVariablesReadyCondition, clusterv1.ClusterClassRefVersionsUpToDateCondition, clusterv1.ClusterTopologyReconciledCondition,
}

func objectCells(n *tree.Node, now time.Time) []string {
	o := n.Object
	cells := make([]string, len(treeHeader))
	if o.Kind == "Machine" {
		count := max(1, len(n.Members))
		cells[1] = strconv.Itoa(count)
		for i, t := range []string{clusterv1.AvailableCondition, clusterv1.ReadyCondition, clusterv1.MachineUpToDateCondition} {
			if c := o.Condition(t); c != nil {
				cells[2+i] = "0"
				if c.Status == metav1.ConditionTrue {
					cells[2+i] = strconv.Itoa(count)
				}
			}
		}
	} else {
		r := o.Replicas
		if r.Desired != nil && r.Current != nil {
			cells[1] = fmt.Sprintf("%d/%d", *r.Current, *r.Desired)
		}
		for i, v := range []*int32{r.Available, r.Ready, r.UpToDate} {
			if v != nil {
				cells[2+i] = strconv.Itoa(int(*v))
			}
		}
	}
	c := o.Condition(clusterv1.AvailableCondition)
	if ready := o.Condition(clusterv1.ReadyCondition); c == nil || (o.Kind == "Machine" && ready != nil) {
		c = ready
	}
	for _, t := range further {
		if said := o.Condition(t); said != nil && (c == nil || !needsAttention(c) && needsAttention(said)) {
			c = said
		}
	}
	if o.Deleted != nil && o.Condition(clusterv1.DeletingCondition) != nil {
		c = o.Condition(clusterv1.DeletingCondition)
	}
	if c == nil {
		return cells
	}
	conditionCells(cells, c, now)
	cells[5] = c.Type + ": " + cells[5]
	if len(n.Members) > 1 && cells[messageColumn] == "" {
		cells[messageColumn] = "See " + names(n.Members)
	}
	return cells
}

func conditionCells(cells []string, c *metav1.Condition, now time.Time) {
	cells[5], cells[6] = string(c.Status), c.Reason
	cells[7] = duration.HumanDuration(now.Sub(c.LastTransitionTime.Time))
	if needsAttention(c) || c.Type == clusterv1.DeletingCondition {
		cells[messageColumn] = c.Message
	}
}

// names lists at most three names.
func names(all []string) string {
	if len(all) <= 3 {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:3], ", ") + ", ..."
}

func (t *table) write(w io.Writer, color bool) error {
	widths := make([]int, len(treeHeader))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			pad := widths[i] - utf8.RuneCountInString(cell)
			line.WriteString(paint(cell, color && i == 5))
			line.WriteString(strings.Repeat(" ", pad+2))
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// paint colours a status by what it says.
func paint(cell string, color bool) string {
	if !color || cell == "" {
		return cell
	}
	switch {
	case strings.HasSuffix(cell, "True"):
		return "\x1b[32m" + cell + "\x1b[0m"
	case strings.HasSuffix(cell, "False"):
		return "\x1b[31m" + cell + "\x1b[0m"
	case strings.HasSuffix(cell, "Unknown"):
		return "\x1b[33m" + cell + "\x1b[0m"
	}
	return cell
}
