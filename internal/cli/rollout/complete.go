// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// complete completes objects of the allowed kinds, as KIND/NAME, while there are
// fewer arguments than most. After a kind, in any accepted form, it completes the
// names of that kind, with the form that the user typed.
func (t *target) complete(env *command.Env, most int, allowed []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		offered := make([][]string, len(allowed))
		var all sync.WaitGroup
		for i, kind := range allowed {
			as, _, chosen := strings.Cut(typed, "/")
			if !chosen {
				as = strings.ToLower(kind)
			} else if _, err := rollout.Parse(as+"/any", "", kind); err != nil {
				continue
			}
			all.Go(recovery.Func(context.Background(), func() { // one after the other they could take longer than a shell is kept waiting
				for _, name := range t.mgmt.Names(cmd.Context(), env, rollout.Resource(kind), t.namespace) {
					offered[i] = append(offered[i], as+"/"+name)
				}
			}))
		}
		all.Wait()
		names := slices.DeleteFunc(slices.Concat(offered...), func(name string) bool { return slices.Contains(args, name) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
