// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/tree"
)

// style defines how a tree is shown.
type style struct {
	now   time.Time
	color bool
	// within is how many columns a line may take; 0 is any number.
	within int
	// conditions chooses those that are shown below their objects.
	conditions filter
}

// render prints a tree as a table without borders.
func render(w io.Writer, root *tree.Node, s style) error {
	t := &table{}
	t.add(header(), "")
	t.node(root, "", "", s)
	return t.write(w, s.within, s.color)
}

// node adds the rows of n and of what is below it. first and rest are the prefixes
// of the name in its first and in all later lines.
func (t *table) node(n *tree.Node, first, rest string, s style) {
	name := n.Title
	if n.Role != "" {
		name = n.Role + " - " + name
	}
	below := rest
	if len(n.Children) > 0 {
		below = rest + "│ "
	}
	var cells row
	if n.Object != nil {
		cells = objectCells(n, s.now)
		if n.Object.Deleted != nil {
			name += " (deleting)"
		}
		if n.Object.Paused {
			name += " (paused)"
		}
	}
	cells[nameColumn] = first + name
	t.add(cells, below)
	if n.Object != nil {
		for _, c := range s.conditions.chosen(n.Object) {
			cells := row{nameColumn: below + "  " + c.Type}
			cells.condition(&c, s.now)
			t.add(cells, below)
		}
	}
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			t.node(child, rest+"└─", rest+"  ", s)
		} else {
			t.node(child, rest+"├─", rest+"│ ", s)
		}
	}
}

// further are the conditions that summarize kinds without Available and Ready, and
// an additional one of Cluster: it may be available while its topology is not
// reconciled yet. One that needs attention goes before one that does not.
var further = []string{
	clusterv1.MachineHealthCheckRemediationAllowedCondition, clusterv1.MachineHealthCheckSoundCondition,
	clusterv1.ClusterClassVariablesReadyCondition, clusterv1.ClusterClassRefVersionsUpToDateCondition, clusterv1.ClusterTopologyReconciledCondition,
	addonsv1.ClusterResourceSetResourcesAppliedCondition,
}

func objectCells(n *tree.Node, now time.Time) (cells row) {
	o := n.Object
	cells[versionColumn] = o.Version
	if o.Kind == "Machine" {
		count := max(1, len(n.Members))
		cells[replicasColumn] = strconv.Itoa(count)
		for i, t := range []string{clusterv1.AvailableCondition, clusterv1.ReadyCondition, clusterv1.MachineUpToDateCondition} {
			if c := o.Condition(t); c != nil {
				cells[availableColumn+i] = "0"
				if c.Status == metav1.ConditionTrue {
					cells[availableColumn+i] = strconv.Itoa(count)
				}
			}
		}
	} else {
		r := o.Replicas
		if r.Desired != nil && r.Current != nil {
			cells[replicasColumn] = fmt.Sprintf("%d/%d", *r.Current, *r.Desired)
		}
		for i, v := range []*int32{r.Available, r.Ready, r.UpToDate} {
			if v != nil {
				cells[availableColumn+i] = strconv.Itoa(int(*v))
			}
		}
	}
	if c := telling(o); c != nil {
		cells.condition(c, now)
		cells[statusColumn] = c.Type + ": " + cells[statusColumn]
	}
	if len(n.Members) > 1 {
		message := cells[messageColumn]
		if cells[messageColumn] = "See " + names(n.Members); message != "" {
			cells[messageColumn] += "\n" + o.Name + ": " + message
		}
	}
	return cells
}

// telling is the condition that a row shows; nil if there is none.
func telling(o *tree.Object) *metav1.Condition {
	c := o.Condition(clusterv1.AvailableCondition)
	if ready := o.Condition(clusterv1.ReadyCondition); c == nil || (o.Kind == "Machine" && ready != nil) {
		c = ready
	}
	for _, t := range further {
		if said := o.Condition(t); said != nil && (c == nil || !needsAttention(c) && needsAttention(said)) {
			c = said
		}
	}
	if deleting := o.Condition(clusterv1.DeletingCondition); o.Deleted != nil && deleting != nil && needsAttention(deleting) {
		c = deleting
	}
	return c
}

// condition fills in the fields of a condition.
func (r *row) condition(c *metav1.Condition, now time.Time) {
	r[statusColumn], r[reasonColumn] = string(c.Status), c.Reason
	if !c.LastTransitionTime.IsZero() {
		r[sinceColumn] = duration.HumanDuration(now.Sub(c.LastTransitionTime.Time))
	}
	if needsAttention(c) {
		r[messageColumn] = c.Message
	}
}

// names lists at most three names.
func names(all []string) string {
	if len(all) <= 3 {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:3], ", ") + ", ..."
}
