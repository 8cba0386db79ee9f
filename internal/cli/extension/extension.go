// SPDX-License-Identifier: Apache-2.0

// Package extension holds the commands for runtime extensions: for operators, who
// register them and check their state, and for authors, who call and test their
// own.
package extension

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// kind is the kind that clients omit from an ExtensionConfig that they read.
var kind = runtimev1.GroupVersion().WithKind("ExtensionConfig")

// New returns the command extension with all commands below it.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "extension",
		Aliases: []string{"ext"},
		Short:   "Register, call and test runtime extensions",
		Long: `Runtime extensions are servers that Capstan asks at chosen moments of a
cluster's life, the hooks: they can block a step, patch templates and validate
them. docs/book/extensions.md takes you from nothing to a first one.`,
	}
	cmd.AddCommand(newList(env), newRegister(env), newUnregister(env), newCall(env), newTest(env), newOpenAPI(env))
	return cmd
}

// mgmt is the management cluster whose extensions are meant.
type mgmt struct {
	chosen command.Mgmt
	client client.Client
	// raw requests paths of the API server that are not objects.
	raw rest.Interface
}

// connectToChange is connect for a command that changes something: it names
// what it changes first.
func connectToChange(env *command.Env, flags *command.MgmtFlags) (*mgmt, error) {
	m, err := connect(env, flags)
	if err == nil {
		env.Say("Management cluster: %s", m.chosen)
	}
	return m, err
}

func connect(env *command.Env, flags *command.MgmtFlags) (*mgmt, error) {
	m, err := flags.Load(env)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(runtimev1.AddToScheme(scheme), corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(m.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	raw, err := command.RawClient(m.Config, scheme)
	if err != nil {
		return nil, err
	}
	return &mgmt{chosen: m, client: c, raw: raw}, nil
}

// config reads one ExtensionConfig.
func (m *mgmt) config(ctx context.Context, name string) (*runtimev1.ExtensionConfig, error) {
	config := &runtimev1.ExtensionConfig{}
	err := m.client.Get(ctx, client.ObjectKey{Name: name}, config)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no ExtensionConfig %s: see `capstan extension list`", name)
	}
	if err != nil {
		return nil, explain(fmt.Errorf("read ExtensionConfig %s: %w", name, err))
	}
	return config, nil
}

// configs reads all ExtensionConfigs, sorted by name.
func (m *mgmt) configs(ctx context.Context) ([]runtimev1.ExtensionConfig, error) {
	var list runtimev1.ExtensionConfigList
	if err := m.client.List(ctx, &list); err != nil {
		return nil, explain(fmt.Errorf("list ExtensionConfigs: %w", err))
	}
	slices.SortFunc(list.Items, func(a, b runtimev1.ExtensionConfig) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// explain adds the remedy if a management cluster does not serve ExtensionConfigs.
func explain(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w (is this a Capstan management cluster? see `capstan status`)", err)
	}
	return err
}

// oneName requires exactly one argument, and a value for each flag.
func oneName(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return command.Misuse(fmt.Errorf("%s is needed: %s", what, cmd.UseLine()))
		}
		return command.RefuseEmpty(cmd.Flags())
	}
}

// address is how people read where an extension is.
func address(c runtimev1.ClientConfig) string {
	if c.URL != "" {
		return c.URL
	}
	port := int32(443)
	if c.Service.Port != nil {
		port = *c.Service.Port
	}
	text := fmt.Sprintf("service %s/%s:%d", c.Service.Namespace, c.Service.Name, port)
	if c.Service.Path != "" {
		text += "/" + strings.TrimPrefix(c.Service.Path, "/")
	}
	return text
}
