// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/containermachines"
)

// newMachine returns the command logs machine.
func newMachine(env *command.Env) *cobra.Command {
	var dir, namespace string
	var follow bool
	cmd := &cobra.Command{
		Use:   "machine NAME",
		Short: "Show what a container machine wrote to its console",
		Long: `Show the newest of what a container machine of this host wrote to its console,
whether a plane runs or not. NAME is that of its LocalMachine, which its Node has as
well. What looks like a token or a key is left out: kubeadm prints such.`,
		Example: `  capstan logs machine demo-control-plane-x7k2p
  capstan logs machine demo-control-plane-x7k2p --follow`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.RefuseEmpty(cmd.Flags()); err != nil {
				return err
			}
			if len(args) != 1 {
				return command.Misuse(errors.New("the name of one machine is needed; for a cluster with the name machine, use \"capstan events machine\""))
			}
			if dir == "" {
				return command.Misuse(errors.New("--containers-dir is needed: neither XDG_DATA_HOME nor HOME says where container machines are kept"))
			}
			folder, err := consoleOf(dir, namespace, args[0])
			if err != nil {
				return err
			}
			c := &console{env: env, folder: folder}
			return c.show(cmd.Context(), follow)
		},
	}
	cmd.Flags().StringVar(&dir, "containers-dir", env.DefaultContainersDir(), "folder that keeps container machines")
	_ = cmd.MarkFlagDirname("containers-dir")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the machine")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what it writes from now on, too, until it is removed")
	return cmd
}

// consoleOf finds the folder of a machine's console.
func consoleOf(dir, namespace, name string) (string, error) {
	kept, err := containermachines.List(filepath.Join(dir, "machines"))
	if errors.Is(err, fs.ErrPermission) {
		return "", fmt.Errorf("%w: only root may see container machines", err)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var known []string
	for _, k := range kept {
		if k.Namespace != namespace {
			continue
		}
		if k.Name == name {
			return filepath.Join(dir, "containers", "containers", k.Container), nil
		}
		known = append(known, k.Name)
	}
	if len(known) == 0 {
		return "", fmt.Errorf("there is no container machine in namespace %s of %s: --namespace and --containers-dir choose others", namespace, dir)
	}
	return "", fmt.Errorf("there is no container machine %s in namespace %s: there are %s", name, namespace, strings.Join(known, ", "))
}
