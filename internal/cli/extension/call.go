// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

type callOptions struct {
	target                targetFlags
	handler, file, output string
	example               bool
}

func newCall(env *command.Env) *cobra.Command {
	var o callOptions
	cmd := &cobra.Command{
		Use:   "call HOOK --file REQUEST (--url URL | --config NAME | --handler HANDLER.NAME)",
		Short: "Make one call of a hook and print the answer",
		Long: `Send one request to an extension and print its answer. The extension is given
by its URL, which needs no management plane, or by the name of its
ExtensionConfig, whose settings are sent too. The file holds the request, as
YAML or JSON; apiVersion and kind may be left out. --example prints one to start
from.

The status is 1 when the extension cannot be called and when it answers Failure.
An answer that blocks is an answer.`,
		Example: `  capstan extension call BeforeClusterCreate --example > request.yaml
  capstan extension call BeforeClusterCreate --file request.yaml --url https://127.0.0.1:9443 --ca-file ca.crt
  capstan extension call BeforeClusterCreate --file request.yaml --config policy --setting freeze=true
  capstan extension call GeneratePatches --file - --handler defaults.policy -o json < request.json
  capstan extension call Discovery --url https://127.0.0.1:9443 --ca-file ca.crt`,
		Args: oneName("the name of one hook"),
		RunE: func(cmd *cobra.Command, args []string) error {
			hook, err := catalog.Default().Named(args[0])
			if err != nil {
				return command.Misuse(err)
			}
			if err := o.complete(hook); err != nil {
				return err
			}
			if o.example {
				return printExample(env, hook, o.output)
			}
			return runCall(cmd.Context(), env, o, hook)
		},
	}
	o.target.add(cmd, env)
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the request, - for standard input")
	f.StringVar(&o.target.url, "url", "", "address of the extension: https://host:port/path")
	f.StringVar(&o.target.config, "config", "", "name of the ExtensionConfig")
	f.StringVar(&o.handler, "handler", "", "handler to call, alone or as handler.config; needed where there are several for the hook")
	f.BoolVar(&o.example, "example", false, "print an example request instead")
	command.OutputFlag(cmd, &o.output, "yaml", "json", "yaml")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	_ = cmd.RegisterFlagCompletionFunc("config", completeConfigs(env, &o.target.mgmt, 2))
	_ = cmd.RegisterFlagCompletionFunc("handler", completeHandlers(env, &o.target.mgmt))
	cmd.ValidArgsFunction = completeHooks(1)
	return cmd
}

// complete checks the flags, and finds the ExtensionConfig of a full handler
// name.
func (o *callOptions) complete(hook catalog.Descriptor) error {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	o.output = cmp.Or(o.output, "yaml")
	if o.example {
		return nil
	}
	if _, config, full := strings.Cut(o.handler, "."); full && o.target.url == "" && o.target.config == "" {
		o.target.config = config
	}
	switch {
	case (o.target.url == "") == (o.target.config == ""):
		return command.Misuse(errors.New("the extension is needed: one of --url, --config and --handler HANDLER.NAME"))
	case o.file == "" && !hook.Singleton:
		return command.Misuse(errors.New("the request is needed: --file REQUEST; --example prints one to start from"))
	}
	return o.target.check()
}

func runCall(ctx context.Context, env *command.Env, o callOptions, hook catalog.Descriptor) error {
	request, err := catalog.Default().NewRequest(hook.GroupVersionHook)
	if err != nil {
		return err
	}
	if o.file != "" {
		if request, hook, err = readRequest(env, o.file, hook); err != nil {
			return err
		}
	}
	t, err := o.target.open(ctx, env)
	if err != nil {
		return err
	}
	defer t.pool.Close()
	handler := runtimev1.ExtensionHandler{Name: hook.Hook}
	of := hook.GroupVersionHook
	if !hook.Singleton {
		handlers, err := t.discover(ctx)
		if err != nil {
			return err
		}
		if handler, of, err = t.pick(handlers, hook.GroupHook(), o.handler); err != nil {
			return err
		}
	}
	begin := env.Now()
	response, err := t.call(ctx, hook, of, handler, request)
	if err != nil {
		return err
	}
	env.Say("%s answered in %s", handler.Name, seconds(env.Now().Sub(begin).Seconds()))
	if err := env.PrintObject(response, o.output); err != nil {
		return err
	}
	return comment(env, handler.Name, response)
}

// call calls one handler, in the version that it answers, and returns its answer,
// in the version of the request.
func (t *target) call(ctx context.Context, hook catalog.Descriptor, of catalog.GroupVersionHook, handler runtimev1.ExtensionHandler, request runtime.Object) (hooksv1.ResponseObject, error) {
	what := "call " + handler.Name
	if withSettings, ok := request.(hooksv1.RequestObject); ok {
		withSettings.SetSettings(extensionconfig.Settings(t.config.Spec.Settings, withSettings.GetSettings()))
	}
	converted, err := catalog.Default().ConvertRequest(request, of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	d, err := catalog.Default().Find(of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	response, err := catalog.Default().NewResponse(of)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(handler.Name, "."+t.config.Name)
	if d.Singleton {
		name = ""
	}
	timeout := cmp.Or(time.Duration(handler.TimeoutSeconds)*time.Second, extensionconfig.DefaultTimeout)
	if err := t.post(ctx, post{what: what, path: d.Path(name), kind: d, request: converted, response: response, timeout: timeout}); err != nil {
		return nil, err
	}
	if of == hook.GroupVersionHook {
		return response, nil
	}
	newer, err := catalog.Default().NewResponse(hook.GroupVersionHook)
	if err != nil {
		return nil, err
	}
	return newer, catalog.Default().ConvertResponse(response, newer)
}

// comment explains an answer, and returns an error for Failure.
func comment(env *command.Env, handler string, response hooksv1.ResponseObject) error {
	if response.GetStatus() == hooksv1.ResponseStatusFailure {
		return fmt.Errorf("%s answered Failure: %s", handler, cmp.Or(response.GetMessage(), "it gives no reason"))
	}
	if retry, ok := response.(hooksv1.RetryResponseObject); ok {
		if s := retry.GetRetryAfterSeconds(); s > 0 {
			env.Say("It blocks, and wants to be asked again in %s", time.Duration(s)*time.Second)
		} else {
			env.Say("It does not block")
		}
	}
	text, err := json.Marshal(response)
	if err != nil {
		return err
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	sayPatches(env, "", fields)
	return nil
}

// sayPatches shows the patches of an answer, which are base64 on the wire.
func sayPatches(env *command.Env, where string, value any) {
	switch value := value.(type) {
	case map[string]any:
		if patch, ok := value["patch"].(string); ok {
			if text, err := base64.StdEncoding.DecodeString(patch); err == nil {
				kind, _ := value["patchType"].(string)
				env.Say("%s: %s", strings.TrimSuffix(strings.TrimPrefix(where, ".")+", "+kind, ", "), text)
			}
			return
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			sayPatches(env, where+"."+key, value[key])
		}
	case []any:
		for i, item := range value {
			sayPatches(env, fmt.Sprintf("%s[%d]", where, i), item)
		}
	}
}
