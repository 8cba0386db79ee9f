// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	conformance "github.com/capstan-dev/capstan/conformance/extension"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/cli/suites"
)

type testOptions struct {
	target   targetFlags
	hooks    []string
	requests command.Pairs
	output   suites.Output
	list     bool
}

func newTest(env *command.Env) *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use:   "test (URL | NAME)",
		Short: "Find out whether an extension keeps the contract",
		Long: `Run the conformance suite against an extension, given by its URL or by the name
of its ExtensionConfig, and report each check: ok, FAIL, note (advice, which
callers do not depend on) or skip. The status is 1 when one fails.

The suite calls the handlers, and calls have effects. Its requests are about a
Cluster ` + conformance.ClusterName + ` in a namespace of that name. --hooks limits what is
called, --request sends requests of your own.`,
		Example: `  capstan extension test https://127.0.0.1:9443 --ca-file ca.crt
  capstan extension test policy --hooks BeforeClusterCreate,GeneratePatches
  capstan extension test policy --request GeneratePatches=patches.yaml -o json
  capstan extension test --list`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return command.NoArgs(cmd, args)
			}
			return oneName("the URL of an extension, or the name of one ExtensionConfig,")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.Check(); err != nil {
				return err
			}
			if o.list {
				return o.output.List(env, conformance.Checks())
			}
			return runTest(cmd.Context(), env, o, args[0])
		},
	}
	o.target.add(cmd, env)
	f := cmd.Flags()
	f.StringSliceVar(&o.hooks, "hooks", nil, "hooks to call (default: all that the extension has)")
	f.Var(&o.requests, "request", "request to send instead of the suite's, as HOOK=FILE or HANDLER=FILE; may be repeated")
	f.BoolVar(&o.list, "list", false, "print the checks instead")
	o.output.Add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("hooks", completeHooks(2))
	cmd.ValidArgsFunction = completeConfigs(env, &o.target.mgmt, 1)
	return cmd
}

func runTest(ctx context.Context, env *command.Env, o testOptions, name string) error {
	for _, hook := range o.hooks {
		if _, err := catalog.Default().Named(hook); err != nil {
			return command.Misuse(fmt.Errorf("--hooks: %w", err))
		}
	}
	requests := map[string][]byte{}
	for of, file := range o.requests {
		text, err := env.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read --request %s: %w", of, err)
		}
		requests[of] = text
	}
	o.target.config = name
	if strings.Contains(name, "://") {
		o.target.url, o.target.config = name, ""
	}
	t, err := o.target.open(ctx, env)
	if err != nil {
		return err
	}
	defer t.pool.Close()
	address, err := t.address(ctx)
	if err != nil {
		return err
	}
	return o.output.Run(env, name, func(progress func(conformance.Result)) conformance.Report {
		return conformance.Run(ctx, conformance.Config{
			URL: t.url(), Address: address, CABundle: t.config.Spec.ClientConfig.CABundle, ClientCertFile: o.target.clientCert, ClientKeyFile: o.target.key,
			Name: t.config.Name, Settings: t.config.Spec.Settings, Requests: requests, Hooks: o.hooks, Timeout: o.target.timeout,
			Progress: progress,
		})
	})
}

// address finds where a Service is; empty for a URL. The suite would report a
// Service that is not reached from here as well, but not the way there.
func (t *target) address(ctx context.Context) (string, error) {
	s := t.endpoint.Service
	if s == nil {
		return "", nil
	}
	address, err := t.services.Resolve(ctx, s.Namespace, s.Name, cmp.Or(s.Port, 443))
	if err != nil {
		return "", fmt.Errorf("test %s: find Service %s/%s: %w", t.config.Name, s.Namespace, s.Name, err)
	}
	if _, err := t.ask(ctx); err != nil && t.advice(err) != "" {
		return "", err
	}
	return address, nil
}
