// SPDX-License-Identifier: Apache-2.0

// Package history holds the commands that show the recorded decisions of controllers,
// collect them in a report, and make them again.
package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// kinds are those whose controllers record decisions.
var kinds = []string{"Cluster", "Machine", "MachineSet", "MachineDeployment", "MachineHealthCheck", "KubeadmControlPlane", "KubeadmConfig", "LocalMachinePool"}

type options struct {
	mgmt      command.MgmtFlags
	namespace string
	output    string
}

// New returns the command history.
func New(env *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "history KIND/NAME",
		Short: "Show the decisions of controllers about an object",
		Long: `Show the decisions of controllers about an object, the oldest first: when, by
which controller, which facts changed since its previous decision, and the plan.
Decisions about a deleted object are shown, too.

A decision is recorded if it differs from the previous one. The plane stores the
last 64 of each object, without the values of secrets.`,
		Example: `  capstan history machine/demo-workers-x7k2p
  capstan history kcp/demo-control-plane -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckOutput(o.output, "json"); err != nil {
				return err
			}
			if len(args) != 1 {
				return command.Misuse(errors.New("name one object as KIND/NAME, such as machine/demo-workers-x7k2p"))
			}
			return run(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, env)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the object (default: that of the kubeconfig)")
	command.OutputFlag(cmd, &o.output, "text", "json")
	return cmd
}

func run(ctx context.Context, env *command.Env, o options, name string) error {
	m, err := o.mgmt.Load(env)
	if err != nil {
		return err
	}
	of, err := rollout.Parse(name, cmp.Or(o.namespace, m.Namespace), kinds...)
	if err != nil {
		return command.Misuse(err)
	}
	all, err := read(ctx, m, strings.ToLower(of.Kind)+"/"+of.Namespace+"/"+of.Name)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return env.PrintObject(decisions.List{Decisions: all}, "json")
	}
	if len(all) == 0 {
		env.Say("No decisions about %s are recorded: Capstan's controllers decided nothing about it, or it does not exist", of)
	}
	return show(env, all)
}

// read reads decisions from the API server, below path.
func read(ctx context.Context, m command.Mgmt, below string) ([]decisions.Decision, error) {
	raw, err := command.RawClient(m.Config, runtime.NewScheme())
	if err != nil {
		return nil, err
	}
	text, err := raw.Get().AbsPath(decisions.Path + below).MaxRetries(0).DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("management cluster %s: it records no decisions at %s: only a plane of this version does; a manager in another cluster serves them at that path of its metrics address", m, decisions.Path)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("no permission to read %s%s: ask an administrator for the verb get on this nonResourceURL", decisions.Path, below)
	case err != nil:
		return nil, fmt.Errorf("read the recorded decisions: %w", err)
	}
	var found decisions.List
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("read the recorded decisions: %w", err)
	}
	return found.Decisions, nil
}
