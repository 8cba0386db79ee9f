// SPDX-License-Identifier: Apache-2.0

// Package cli turns command lines into calls of the library and the plane. Data
// goes to stdout, talk to stderr.
package cli

import (
	"context"
	"fmt"
	"io"

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
	m, err := flags.Load(&env.Env)
	if err != nil {
		return nil, err
	}
	if *namespace == "" {
		*namespace = m.Namespace
	}
	c, err := clusterctl.New(m.Config)
	if err != nil {
		return nil, fmt.Errorf("%w (is the plane running? see `capstan status`)", err)
	}
	return c, nil
}
