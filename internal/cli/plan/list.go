// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/pure/planguard"
)

// listed are the flags of the commands that show plans.
type listed struct {
	target
	all     bool
	output  string
	details bool
}

func newList(env *command.Env) *cobra.Command {
	var o listed
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plans that are being carried out, and the clusters that require plans",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse("%q is not expected: the command takes no arguments", args[0])
			}
			return o.list(cmd.Context(), env)
		},
	}
	o.add(cmd, env, namespaceHelp)
	command.OutputFlag(cmd, &o.output, "text", "json", "yaml")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "in all namespaces")
	return cmd
}

func newShow(env *command.Env) *cobra.Command {
	var o listed
	cmd := &cobra.Command{
		Use:   "show (FILE | cluster/NAME)",
		Short: "Show a saved plan, or the one that is being carried out for a cluster",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return misuse("one saved plan, or one cluster as cluster/NAME, is needed")
			}
			p, err := o.read(cmd.Context(), env, args[0])
			switch {
			case err != nil:
				return err
			case o.output != "":
				return env.PrintObject(p, o.output)
			}
			show(env, p, o.details)
			return nil
		},
	}
	o.add(cmd, env, namespaceHelp)
	command.OutputFlag(cmd, &o.output, "text", "json", "yaml")
	cmd.Flags().BoolVar(&o.details, "details", false, "also show the machines that stay as they are, and the other objects that are written")
	return cmd
}

func newDiff(env *command.Env) *cobra.Command {
	var o listed
	cmd := &cobra.Command{
		Use:   "diff (FILE | cluster/NAME) (FILE | cluster/NAME)",
		Short: "Show which machines have another fate in a second plan",
		Long: `Show which machines have another fate in a second plan.

Exit status: 0 if the plans do the same, 2 if not, 1 if a plan cannot be read.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return misuse("two plans are needed, each a file or a cluster as cluster/NAME")
			}
			first, err := o.read(cmd.Context(), env, args[0])
			if err != nil {
				return err
			}
			second, err := o.read(cmd.Context(), env, args[1])
			if err != nil {
				return err
			}
			differences := planDifferences(*first, *second)
			for _, text := range differences {
				env.Print("%s", text)
			}
			if len(differences) > 0 {
				return command.StatusError{Status: changeplan.StatusMachinesGo, Cause: errors.New("the plans differ")}
			}
			env.Print("Each machine has the same fate in both plans.")
			return nil
		},
	}
	o.add(cmd, env, namespaceHelp)
	return cmd
}

const namespaceHelp = "namespace of the clusters"

func (o *listed) connect(env *command.Env) (client.Client, error) {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return nil, failed(err)
	}
	return o.target.connect(env)
}

func (o *listed) list(ctx context.Context, env *command.Env) error {
	c, err := o.connect(env)
	if err != nil {
		return err
	}
	if o.all {
		o.namespace = ""
	}
	var all planv1.PlanGuardList
	if err := c.List(ctx, &all, client.InNamespace(o.namespace)); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("list PlanGuards: %w", err)
	}
	if o.output != "" {
		all.APIVersion, all.Kind = planv1.GroupVersion().String(), "PlanGuardList"
		return env.PrintObject(&all, o.output)
	}
	if len(all.Items) == 0 {
		env.Print("No plan is being carried out, and no cluster requires one.")
		return nil
	}
	table := env.Table("CLUSTER", "PLAN", "DEADLINE", "MACHINES LEFT", "REQUIRED", "HELD BACK")
	for _, g := range all.Items {
		deadline, left := "", ""
		if g.Spec.Plan != "" {
			deadline = g.Spec.Deadline.UTC().Format(time.RFC3339)
			if left, err = o.left(ctx, c, &g); err != nil {
				return err
			}
		}
		var held []string
		for _, h := range g.Status.Held {
			held = append(held, strings.ToLower(h.Kind)+"/"+h.Name)
		}
		table.Row(g.Namespace+"/"+g.Name, g.Spec.Plan, deadline, left, fmt.Sprint(g.Spec.Required), strings.Join(held, ", "))
	}
	return table.Flush()
}

// left says how many of the Machines that a plan deletes still exist.
func (o *listed) left(ctx context.Context, c client.Client, g *planv1.PlanGuard) (string, error) {
	if g.Spec.Cluster == nil { // what guards have is that of other writers
		return "", nil
	}
	exist := &metav1.PartialObjectMetadataList{}
	exist.SetGroupVersionKind(clusterv1.GroupVersion().WithKind("MachineList"))
	if err := c.List(ctx, exist, client.InNamespace(g.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: g.Name}); err != nil {
		return "", fmt.Errorf("list Machines: %w", err)
	}
	all, left := 0, 0
	for _, m := range g.Spec.Cluster.Machines {
		if m.Action != planv1.Replaced && m.Action != planv1.Deleted {
			continue
		}
		all++
		if slices.ContainsFunc(exist.Items, func(one metav1.PartialObjectMetadata) bool { return one.UID == m.UID }) {
			left++
		}
	}
	return fmt.Sprintf("%d of %d", left, all), nil
}

// read reads a plan from a file, or that of a Cluster.
func (o *listed) read(ctx context.Context, env *command.Env, from string) (*planv1.Plan, error) {
	if _, err := os.Stat(from); err == nil || !strings.HasPrefix(strings.ToLower(from), "cluster") || !strings.Contains(from, "/") {
		s, err := changeplan.ReadSaved(from)
		if err != nil {
			return nil, err
		}
		return &s.Plan, nil
	}
	object, err := rollout.Parse(from, "", "Cluster")
	if err != nil {
		return nil, err
	}
	c, err := o.connect(env)
	if err != nil {
		return nil, err
	}
	g := &planv1.PlanGuard{}
	object.Namespace = o.namespace
	switch err := c.Get(ctx, object.ObjectKey, g); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), err == nil && g.Spec.Cluster == nil:
		return nil, fmt.Errorf("no plan of Cluster %s is being carried out", object.ObjectKey)
	case err != nil:
		return nil, err
	}
	for _, h := range g.Status.Held {
		env.Say("Held back: %s", planguard.Sentence(g, h))
	}
	p := &planv1.Plan{
		TypeMeta: metav1.TypeMeta{APIVersion: planv1.APIVersion, Kind: planv1.Kind},
		Made:     g.CreationTimestamp, Change: g.Spec.Change, Clusters: []planv1.Cluster{*g.Spec.Cluster},
	}
	changeplan.Summarize(p)
	return p, nil
}
