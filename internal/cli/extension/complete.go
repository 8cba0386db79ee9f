// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// completeConfigs offers the names of all ExtensionConfigs that are not among
// the arguments yet, while there are fewer arguments than most.
func completeConfigs(env *command.Env, flags *command.MgmtFlags, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, config := range offered(cmd.Context(), env, flags) {
			if !slices.Contains(args, config.Name) {
				names = append(names, cobra.CompletionWithDesc(config.Name, sanitize.Line(address(config.Spec.ClientConfig), maxErrorWidth)))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeHandlers offers the full names of all handlers; after the name of a
// hook, of those that answer it.
func completeHandlers(env *command.Env, flags *command.MgmtFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		hook := ""
		if len(args) > 0 {
			if d, err := catalog.Default().Named(args[0]); err == nil {
				hook = d.Hook
			}
		}
		var names []string
		for _, config := range offered(cmd.Context(), env, flags) {
			for _, h := range config.Status.Handlers {
				if hook == "" || h.RequestHook.Hook == hook {
					names = append(names, cobra.CompletionWithDesc(h.Name, sanitize.Line(h.RequestHook.Hook, maxErrorWidth)))
				}
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeHooks offers the names of all hooks while there are fewer arguments
// than most.
func completeHooks(most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, d := range catalog.Default().Hooks() {
			if n := cobra.CompletionWithDesc(d.Hook, d.Summary); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// offered reads the ExtensionConfigs for a shell that completes a word; what
// cannot be read is nothing to complete.
func offered(ctx context.Context, env *command.Env, flags *command.MgmtFlags) []runtimev1.ExtensionConfig {
	ctx, cancel := context.WithTimeout(ctx, command.CompletionTimeout)
	defer cancel()
	m, err := connect(env, flags)
	if err != nil {
		return nil
	}
	configs, err := m.configs(ctx)
	if err != nil {
		return nil
	}
	return configs
}
