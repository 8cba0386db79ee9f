// SPDX-License-Identifier: Apache-2.0

package get

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

type kubeconfigOptions struct {
	mgmt      command.MgmtFlags
	namespace string
	output    string
	merge     string
	use       bool
}

// mergeDefault is --merge without a file.
const mergeDefault = "the default"

func newKubeconfig(env *command.Env) *cobra.Command {
	var o kubeconfigOptions
	cmd := &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print the admin kubeconfig of a workload cluster, or write or merge it",
		Long: `Print the admin kubeconfig of a workload cluster.

With --output it is written to a file that its owner alone can read, which takes
the place of one that is there. With --merge the cluster gets entries in a
kubeconfig, all named NAMESPACE/NAME, and its other entries stay as they are:
"kubectl --context NAMESPACE/NAME" then reaches it.`,
		Example: `  capstan get kubeconfig demo > demo.kubeconfig
  capstan get kubeconfig demo --output demo.kubeconfig
  capstan get kubeconfig demo --merge --use-context && kubectl get nodes`,
		Args: command.ExactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), "output", "merge"); err != nil {
				return err
			}
			switch {
			case o.output != "" && o.merge != "":
				return command.Misuse(errors.New("--output writes a file of its own, and --merge adds to one: give one of them"))
			case o.use && o.merge == "":
				return command.Misuse(errors.New("--use-context is for --merge"))
			}
			return runKubeconfig(cmd, env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, env)
	cmd.ValidArgsFunction = o.mgmt.CompleteClusters(env, 1)
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	f.StringVar(&o.output, "output", "", "file to write it to, with mode 0600; - is stdout")
	f.StringVar(&o.merge, "merge", "", "kubeconfig to add it to, as --merge=FILE (alone: $KUBECONFIG, then ~/.kube/config)")
	f.Lookup("merge").NoOptDefVal = mergeDefault
	f.BoolVar(&o.use, "use-context", false, "with --merge: make it the current context")
	_ = cmd.MarkFlagFilename("output")
	return cmd
}

func runKubeconfig(cmd *cobra.Command, env *command.Env, o kubeconfigOptions, name string) error {
	c, err := o.mgmt.Open(env, &o.namespace)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: o.namespace, Name: name}
	data, err := c.Kubeconfig(cmd.Context(), key)
	if err != nil {
		return err
	}
	switch {
	case o.merge != "":
		path, err := mergeInto(env, o.merge)
		if err != nil {
			return err
		}
		replaced, err := merge(cmd.Context(), path, key.String(), data, o.use)
		if err != nil {
			return fmt.Errorf("merge the kubeconfig of Cluster %s into %s: %w", key, path, err)
		}
		if replaced != "" {
			env.Say("The entries %s were of another cluster, at %s", key, replaced)
		}
		env.Say("Merged into %s: kubectl --context %s get nodes", path, key)
		return nil
	case o.output == "" || o.output == "-":
		_, err = env.Out.Write(data)
		return err
	}
	if err := atomicfile.WriteOutput(o.output, data); err != nil { // a link is replaced, not followed
		return fmt.Errorf("write the kubeconfig of Cluster %s: %w", key, err)
	}
	env.Say("Wrote %s", o.output)
	return nil
}

// mergeInto is the kubeconfig that --merge means.
func mergeInto(env *command.Env, flag string) (string, error) {
	if flag != mergeDefault {
		return flag, nil
	}
	if list := env.Getenv("KUBECONFIG"); list != "" {
		return (&clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(list)}).GetDefaultFilename(), nil
	}
	home := env.Getenv("HOME")
	if home == "" {
		return "", command.Misuse(errors.New("--merge needs a file: neither KUBECONFIG nor HOME is set; use --merge=FILE"))
	}
	return filepath.Join(home, ".kube", "config"), nil
}
