// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

type whyOptions struct {
	mgmt      command.MgmtFlags
	namespace string
	replaced  bool
	output    string
}

// NewWhy returns the command why.
func NewWhy(env *command.Env) *cobra.Command {
	var o whyOptions
	cmd := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Explain why an object is not as desired",
		Long: `Explain the state of an object: follow its conditions to the objects that they
depend on, and print the causes in the order in which they started, each with the
conditions between it and the object, and a remedy.

If no object reports a cause, the command prints the condition that changed first.
It works with any management cluster of Cluster API, and only reads.`,
		Example: `  capstan why cluster/demo
  capstan why machine/demo-workers-x7k2p-9xq4d
  capstan why machinedeployment/demo-workers -n fleet -o json
  capstan why --replaced machine/demo-workers-x7k2p-9xq4d    # also if it was deleted`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Misuse(errors.New("one object is needed, as KIND/NAME, such as cluster/demo"))
			}
			if err := command.CheckOutput(o.output, "text", "json", "yaml"); err != nil {
				return err
			}
			return runWhy(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, env)
	cmd.ValidArgsFunction = o.complete(env)
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the object (default: that of the kubeconfig)")
	f.BoolVar(&o.replaced, "replaced", false, "explain why a Machine is or was replaced")
	command.OutputFlag(cmd, &o.output, "text", "json", "yaml")
	return cmd
}

func runWhy(ctx context.Context, env *command.Env, o whyOptions, object string) error {
	c, err := o.mgmt.Open(env, &o.namespace)
	if err != nil {
		return err
	}
	key, err := c.ParseObject(ctx, object, o.namespace)
	if err != nil {
		return err
	}
	if o.replaced {
		r, err := c.WhyReplaced(ctx, key)
		if err != nil {
			return err
		}
		if o.output == "json" || o.output == "yaml" {
			return env.PrintObject(r, o.output)
		}
		return writeReplacement(env.Out, r, env.Now())
	}
	r, err := c.Why(ctx, key)
	if err != nil {
		return err
	}
	if o.output == "json" || o.output == "yaml" {
		return env.PrintObject(r, o.output)
	}
	return write(env.Out, r, env.Now())
}

// Causes that are printed, and the longest text of one in bytes; JSON has all.
const (
	most     = 5
	mostText = 4 << 10
)

// write prints an explanation.
func write(w io.Writer, r causes.Result, now time.Time) error {
	var b strings.Builder
	switch {
	case len(r.Causes) == 0 && len(r.Progress) == 0:
		fmt.Fprintf(&b, "Nothing is wrong with %s.\n", r.Object)
	case len(r.Causes) == 0:
		fmt.Fprintf(&b, "Nothing blocks %s. In progress:\n", r.Object)
		for _, l := range r.Progress {
			writeLink(&b, "  ", l, now)
		}
	case !r.Certain:
		fmt.Fprintf(&b, "No object reports a cause for the state of %s. The first condition that changed:\n%s\n", r.Object, sanitize.Line(r.Causes[0].Sentence(), mostText))
		writeCause(&b, r.Causes[0], now)
	default:
		for i, c := range r.Causes {
			if i == most {
				fmt.Fprintf(&b, "\nand %d more causes: -o json has them.\n", len(r.Causes)-most)
				break
			}
			if len(r.Causes) > 1 {
				fmt.Fprintf(&b, "%s%d. ", strings.Repeat("\n", min(i, 1)), i+1)
			}
			fmt.Fprintf(&b, "%s\n", sanitize.Line(c.Sentence(), mostText))
			writeCause(&b, c, now)
		}
	}
	if r.Follows > 0 {
		fmt.Fprintf(&b, "\n%d more conditions follow from this.\n", r.Follows)
	}
	if len(r.Unread) > 0 {
		fmt.Fprintf(&b, "\nNo permission to read %s: a cause may be there.\n", sanitize.Line(strings.Join(r.Unread, ", "), mostText))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeCause(b *strings.Builder, c causes.Cause, now time.Time) {
	for i, l := range c.Chain {
		writeLink(b, "  "+strings.Repeat("  ", i), l, now)
	}
	if n := len(c.Others); n > 0 {
		var all []string
		for _, k := range c.Others[:min(n, 3)] {
			all = append(all, k.Name)
		}
		more := ""
		if n > 3 {
			more = fmt.Sprintf(" and %d more", n-3)
		}
		fmt.Fprintf(b, "  The same holds for %s%s.\n", strings.Join(all, ", "), more)
	}
	if c.Remedy == nil {
		return
	}
	if c.Remedy.Text != "" {
		fmt.Fprintf(b, "  Remedy: %s\n", sanitize.Escape(c.Remedy.Text))
	}
	if c.Remedy.Command != "" {
		fmt.Fprintf(b, "  $ %s\n", sanitize.Escape(c.Remedy.Command))
	}
}

// writeLink prints one condition in one line: the message of the cause is printed before.
func writeLink(b *strings.Builder, indent string, l causes.Link, now time.Time) {
	since := ""
	if l.Since != nil {
		since = ", for " + duration.HumanDuration(max(0, now.Sub(l.Since.Time))) // clocks differ
	}
	fmt.Fprintf(b, "%s%s\n", indent, sanitize.Line(fmt.Sprintf("%s: %s %s %s%s", l.Object, l.Condition, l.Status, l.Reason, since), mostText))
}

// complete completes names of Clusters and what has machines, as KIND/NAME.
func (o *whyOptions) complete(env *command.Env) cobra.CompletionFunc {
	kinds := []string{"Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "MachinePool"}
	return func(cmd *cobra.Command, args []string, typed string) (all []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		as, _, chosen := strings.Cut(typed, "/")
		if !chosen {
			for _, kind := range append(kinds, "Machine") {
				all = append(all, strings.ToLower(kind)+"/")
			}
			return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		resource := rollout.Resource("Cluster").GroupVersion().WithResource("machines")
		if object, err := rollout.Parse(as+"/any", "", kinds...); err == nil {
			resource = rollout.Resource(object.Kind)
		} else if !strings.HasPrefix("machines", strings.ToLower(as)) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, name := range o.mgmt.Names(cmd.Context(), env, resource, o.namespace) {
			all = append(all, as+"/"+name)
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// writeReplacement prints why a Machine is replaced: the fields first, then the sources.
func writeReplacement(w io.Writer, r causes.Replacement, now time.Time) error {
	var b strings.Builder
	if len(r.Statements) == 0 {
		fmt.Fprintf(&b, "Nothing requires the replacement of %s.\n", r.Machine)
	} else {
		verb := map[bool]string{true: "is", false: "was"}[r.Exists]
		fmt.Fprintf(&b, "%s %s replaced:\n", r.Machine, verb)
	}
	for _, d := range r.Differences {
		if d.From == "" && d.To == "" {
			fmt.Fprintf(&b, "  %s differs\n", sanitize.Line(d.Field, mostText))
			continue
		}
		fmt.Fprintf(&b, "  %s\n", sanitize.Line(fmt.Sprintf("%s: %s, required %s", d.Field, d.From, d.To), mostText))
	}
	for _, s := range r.Statements {
		ago := ""
		if s.At != nil {
			ago = ", " + duration.HumanDuration(max(0, now.Sub(s.At.Time))) + " ago"
		}
		fmt.Fprintf(&b, "%s%s:\n  %s\n", sanitize.Line(s.Source, mostText), ago, strings.ReplaceAll(sanitize.Escape(s.Text), "\n", "\n  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
