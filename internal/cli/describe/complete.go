// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

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
