// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// signs begin the line of a Machine.
var signs = map[planv1.Action]string{
	planv1.Kept: " ", planv1.Changed: "~", planv1.Replaced: "±", planv1.Deleted: "-", planv1.Created: "+", planv1.Transient: "±", "": "?",
}

// show prints a plan for people.
func show(env *command.Env, p *planv1.Plan, verbose bool) {
	for _, c := range p.Clusters {
		cluster(env, c, verbose)
	}
	for _, text := range p.Assumptions {
		env.Print("Note: %s", text)
	}
	s := p.Summary
	if len(p.Clusters) == 0 {
		env.Print("The change reaches no Cluster.")
		return
	}
	text := fmt.Sprintf("Machines: %d kept, %d changed in place, %d replaced, %d deleted, %d created", s.Kept, s.Changed, s.Replaced, s.Deleted, s.Created)
	if s.Transient > 0 {
		text += fmt.Sprintf(", %d created and deleted again", s.Transient)
	}
	if s.NotPredicted > 0 {
		text += fmt.Sprintf(", %d not predicted", s.NotPredicted)
	}
	env.Print("%s", text)
}

func cluster(env *command.Env, c planv1.Cluster, verbose bool) {
	env.Print("Cluster %s/%s", c.Namespace, c.Name)
	if why := c.NotPredicted; why != nil {
		env.Print("  not predicted (%s): %s", why.Reason, sanitize.Line(why.Message, maxText))
		objects(env, "  moves: ", why.Objects)
		return
	}
	for _, g := range c.Groups {
		group(env, c, g, verbose)
	}
	for _, p := range c.Pools {
		pool(env, p)
	}
	for _, h := range c.Hooks {
		env.Print("  hook after %s: %s %s", short(h.After.Duration), h.Hook, h.Handler)
	}
	for _, b := range c.Blocked {
		env.Print("  %s", blocked(b))
	}
	if u := c.Unending; u != nil {
		env.Print("  never ends: about %d machines are replaced every %s", u.Machines, short(u.Period.Duration))
	}
	if verbose {
		objects(env, "  writes: ", c.Objects)
	}
	if c.Takes.Duration > 0 {
		env.Print("  takes %s", short(c.Takes.Duration))
	}
}

// blocked is the line of what a change waits for at the end.
func blocked(b planv1.Blocked) string {
	return fmt.Sprintf("blocked: %s %s, %s: %s", b.Kind, b.Name, b.Type, sanitize.Line(b.Message, maxText))
}

// group prints an owner of Machines, if there is something to say about it.
func group(env *command.Env, c planv1.Cluster, g planv1.Group, verbose bool) {
	var lines []string
	goes, again := false, 0
	for _, m := range c.Machines {
		if m.Owner != g.Owner || m.Action == planv1.Kept && !verbose {
			continue
		}
		if m.Action == planv1.Transient {
			if again++; again > 1 && !verbose {
				continue
			}
		}
		goes = goes || m.Wave > 0
		lines = append(lines, machine(m))
	}
	if len(lines) == 0 && !verbose {
		return
	}
	count := fmt.Sprintf("%d machines", g.Before)
	if g.Then != g.Before {
		count = fmt.Sprintf("%d machines, then %d", g.Before, g.Then)
	}
	if goes {
		count += fmt.Sprintf("; at least %d of %d available, at most %d deleted at once", g.FewestAvailable, g.AvailableBefore, g.MostDeleting)
	}
	env.Print("  %s: %s", g.Owner, count)
	for _, line := range lines {
		env.Print("  %s", line)
	}
	if again > 1 && !verbose {
		env.Print("    %s and %d more", signs[planv1.Transient], again-1)
	}
}

// pool prints a MachinePool that the change reaches.
func pool(env *command.Env, p planv1.Pool) {
	text := fmt.Sprintf("MachinePool %s: %d replicas", p.Name, p.Before)
	if p.Then != p.Before {
		text += fmt.Sprintf(", then %d", p.Then)
	}
	if p.NotPredicted != "" {
		text += "; not predicted: " + sanitize.Line(p.NotPredicted, maxText)
	}
	env.Print("  %s", text)
	for _, f := range p.Fields {
		env.Print("        %s", field(f))
	}
}

// machine is the line of a Machine, and further ones for its fields.
func machine(m planv1.Machine) string {
	var text strings.Builder
	fmt.Fprintf(&text, "  %s %s", signs[m.Action], m.Name)
	after := ptr.Deref(m.After, metav1.Duration{}).Duration
	switch m.Action {
	case planv1.Kept:
		text.WriteString(" is kept")
	case planv1.Changed:
		text.WriteString(" is changed in place")
	case planv1.Replaced:
		fmt.Fprintf(&text, " is replaced by %s, wave %d after %s", cmp.Or(m.By, "another one"), m.Wave, short(after))
	case planv1.Deleted:
		fmt.Fprintf(&text, " is deleted, wave %d after %s", m.Wave, short(after))
	case planv1.Created:
		fmt.Fprintf(&text, " is created after %s", short(after))
	case planv1.Transient:
		text.WriteString(" is created and deleted again")
	case "":
		text.WriteString(" is not predicted")
	}
	if m.Cause != "" {
		text.WriteString(": " + sanitize.Line(m.Cause, maxText))
	}
	for _, f := range m.Fields {
		text.WriteString("\n        " + field(f))
	}
	return text.String()
}

func field(f planv1.Field) string {
	switch {
	case f.From == "" && f.To == "":
		return f.Path
	case f.From == "":
		return f.Path + ": " + f.To
	case f.To == "":
		return f.Path + ": " + f.From + " is removed"
	}
	return f.Path + ": " + f.From + " → " + f.To
}

func objects(env *command.Env, prefix string, all []planv1.Object) {
	for _, o := range all {
		env.Print("%s%s %s %s", prefix, o.Kind, o.Name, strings.ToLower(string(o.Action)))
		for _, f := range o.Fields {
			env.Print("      %s", field(f))
		}
	}
}

// maxText bounds a message or cause in bytes: that of a condition has at most 32 KiB.
const maxText = 32 << 10

// short is a duration without zero parts.
func short(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.Round(time.Second).String())
}
