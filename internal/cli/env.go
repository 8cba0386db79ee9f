// SPDX-License-Identifier: Apache-2.0

// Package cli turns command lines into calls of the library and the plane. Data
// goes to stdout, talk to stderr.
package cli

import (
	"context"
	"io"
	"strings"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// Env is what a command may touch besides its flags.
type Env struct {
	command.Env
	// StartPlane starts a management plane in this process. It is a field so
	// that tests of the commands do not link an API server.
	StartPlane func(context.Context, PlaneOptions) (Plane, error)
	// SetLog sends the logs of all libraries to w, up to the given level.
	SetLog func(w io.Writer, level int)
}

// open connects to the management cluster that the flags choose. An empty
// namespace is replaced by that of the kubeconfig.
func open(env *Env, flags *command.MgmtFlags, namespace *string) (*clusterctl.Client, error) {
	c, _, err := connect(env, flags, namespace)
	return c, err
}

// openToChange is open for a command that changes something: it names what it
// changes first.
func openToChange(env *Env, flags *command.MgmtFlags, namespace *string) (*clusterctl.Client, error) {
	c, m, err := connect(env, flags, namespace)
	if err == nil {
		env.Say("Management cluster: %s", m)
	}
	return c, err
}

func connect(env *Env, flags *command.MgmtFlags, namespace *string) (*clusterctl.Client, command.Mgmt, error) {
	m, err := flags.Load(&env.Env)
	if err != nil {
		return nil, m, err
	}
	if *namespace == "" {
		*namespace = m.Namespace
	}
	c, err := clusterctl.New(m.Config)
	return c, m, err
}

// progress tells what happens, and how long after its first call. The text may
// have lines of its own, which stay behind the time.
func progress(env *Env) func(clusterctl.Event) {
	started := env.Now()
	return func(e clusterctl.Event) {
		env.Say("%5.1fs  %s", env.Now().Sub(started).Seconds(), strings.ReplaceAll(e.Text, "\n", "\n        "))
	}
}
