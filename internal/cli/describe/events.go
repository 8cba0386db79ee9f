// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

type eventOptions struct {
	mgmt          command.MgmtFlags
	namespace     string
	allNamespaces bool
	types         []string
	watch         bool
	output        string
}

// known are the types of Events.
var known = []string{corev1.EventTypeNormal, corev1.EventTypeWarning}

// NewEvents returns the command events.
func NewEvents(env *command.Env) *cobra.Command {
	var o eventOptions
	cmd := &cobra.Command{
		Use:   "events [NAME]",
		Short: "Show what happened to a cluster and all that belongs to it",
		Long: `Show the Events of a cluster and of all that belongs to it, oldest first. Without
a name those of the whole namespace are shown. The API server forgets Events after
an hour.`,
		Example: `  capstan events demo
  capstan events demo --watch
  capstan events -A --types Warning`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Misuse(errors.New("the name of one cluster is needed, or none"))
			}
			if o.allNamespaces && (len(args) > 0 || cmd.Flags().Changed("namespace")) {
				return command.Misuse(errors.New("-A shows the Events of all namespaces: leave it out with a name or a namespace"))
			}
			return runEvents(cmd.Context(), env, o, strings.Join(args, ""))
		},
	}
	o.mgmt.Add(cmd, env)
	cmd.ValidArgsFunction = o.mgmt.CompleteClusters(env, 1)
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "show the Events of all namespaces")
	f.StringSliceVar(&o.types, "types", nil, "types of Events to show, "+strings.Join(known, " or "))
	f.BoolVarP(&o.watch, "watch", "w", false, "show those that come, too")
	command.OutputFlag(cmd, &o.output, "a table", "json", "yaml")
	_ = cmd.RegisterFlagCompletionFunc("types", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runEvents(ctx context.Context, env *command.Env, o eventOptions, name string) error {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	for i, t := range o.types {
		at := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, t) })
		if at < 0 {
			return command.Misuse(fmt.Errorf("--types %s is not known%s", t, suggest.Hint(t, known)))
		}
		o.types[i] = known[at]
	}
	c, err := o.mgmt.Open(env, &o.namespace)
	if err != nil {
		return err
	}
	if o.allNamespaces {
		o.namespace = ""
	}
	key := client.ObjectKey{Namespace: o.namespace, Name: name}
	if o.watch {
		l := &lines{env: env, o: o}
		return c.FollowEvents(ctx, key, l.show)
	}
	all, err := c.ReadEvents(ctx, key)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e corev1.Event) bool { return !o.wants(&e) })
	if o.output != "" {
		list := corev1.EventList{Items: all}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("EventList"))
		return env.PrintObject(list, o.output)
	}
	if len(all) == 0 {
		env.Say("No events found")
		return nil
	}
	t := env.Table(o.header()...)
	for i := range all {
		t.Row(o.cells(env, &all[i])...)
	}
	return t.Flush()
}

func (o *eventOptions) wants(e *corev1.Event) bool {
	return len(o.types) == 0 || slices.Contains(o.types, e.Type)
}

func (o *eventOptions) header() []string {
	header := []string{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
	if o.allNamespaces {
		header = append([]string{"NAMESPACE"}, header...)
	}
	return header
}

func (o *eventOptions) cells(env *command.Env, e *corev1.Event) []string {
	seen := duration.HumanDuration(env.Now().Sub(causes.EventTime(e)))
	times := e.Count
	if e.Series != nil {
		times = e.Series.Count
	}
	if times > 1 {
		seen += fmt.Sprintf(" (x%d)", times)
	}
	cells := []string{seen, e.Type, e.Reason, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, e.Message}
	if o.allNamespaces {
		cells = append([]string{e.Namespace}, cells...)
	}
	return cells
}

// lines prints Events one at a time.
type lines struct {
	env  *command.Env
	o    eventOptions
	rows int
}

func (l *lines) show(e *corev1.Event) error {
	if !l.o.wants(e) {
		return nil
	}
	if l.o.output != "" {
		e.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
		if l.rows++; l.rows > 1 && l.o.output == "yaml" {
			l.env.Print("---")
		}
		return l.env.PrintObject(e, l.o.output)
	}
	// Later Events are not known, so the columns have widths that most fit in.
	format := "%-14s %-8s %-28s %-50s %s"
	cells := l.o.cells(l.env, e)
	if l.o.allNamespaces {
		format = "%-16s " + format
	}
	if l.rows++; l.rows == 1 {
		l.env.Print(format, anys(l.o.header())...)
	}
	for i := range cells {
		cells[i] = strings.Join(strings.Fields(cells[i]), " ")
	}
	l.env.Print(format, anys(cells)...)
	return nil
}

func anys(texts []string) (out []any) {
	for _, t := range texts {
		out = append(out, t)
	}
	return out
}
