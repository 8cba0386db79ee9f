// SPDX-License-Identifier: Apache-2.0

// Package cli turns command lines into calls of the library and the plane. Data
// goes to stdout, talk to stderr.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/clusterctl"
)

// Env is what a command may touch besides its flags.
type Env struct {
	// Name is what the program was called as: capstan or clusterctl.
	Name     string
	In       io.Reader
	Out, Err io.Writer
	// Getenv reads the environment.
	Getenv func(string) string
	// Now tells the time.
	Now func() time.Time
	// Terminal says that Out is one, so that colours are welcome.
	Terminal bool
	// StartPlane starts a management plane in this process. It is a field so
	// that tests of the commands do not link an API server.
	StartPlane func(context.Context, PlaneOptions) (Plane, error)
	// SetLog sends the logs of all libraries to w, up to the given level.
	SetLog func(w io.Writer, level int)
}

func (e *Env) say(format string, args ...any)   { _, _ = fmt.Fprintf(e.Err, format+"\n", args...) }
func (e *Env) print(format string, args ...any) { _, _ = fmt.Fprintf(e.Out, format+"\n", args...) }

// UsageError makes the program print a hint and exit with status 2.
type UsageError struct{ error }

// Unwrap lets errors.Is see the cause.
func (e UsageError) Unwrap() error { return e.error }

// defaultDataDir is where the plane keeps everything unless --data-dir says otherwise.
func (e *Env) defaultDataDir() string {
	if dir := e.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "capstan")
	}
	home := e.Getenv("HOME")
	if home == "" {
		return "" // up says that --data-dir is needed
	}
	return filepath.Join(home, ".local", "share", "capstan")
}

// mgmtFlags choose the management cluster a command works on.
type mgmtFlags struct{ kubeconfig, context, dataDir string }

func (f *mgmtFlags) add(cmd *cobra.Command, env *Env) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster (default: $KUBECONFIG, then that of the running plane)")
	cmd.Flags().StringVar(&f.context, "kubeconfig-context", "", "context to use in the kubeconfig (default: its current one)")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", env.defaultDataDir(), "data directory of the plane, where its kubeconfig is looked for")
}

// mgmt is a chosen management cluster.
type mgmt struct {
	config    *rest.Config
	namespace string // of the kubeconfig's context
}

// load reads the kubeconfig that the flags and the environment choose.
func (f *mgmtFlags) load(env *Env) (mgmt, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: f.kubeconfig}
	switch {
	case f.kubeconfig != "":
	case env.Getenv("KUBECONFIG") != "":
		rules.Precedence = filepath.SplitList(env.Getenv("KUBECONFIG"))
	default:
		rules.ExplicitPath = filepath.Join(f.dataDir, "kubeconfig")
		if _, err := os.Stat(rules.ExplicitPath); errors.Is(err, fs.ErrNotExist) {
			return mgmt{}, fmt.Errorf("no management cluster: start one with `capstan up`, or name one with --kubeconfig (no plane was ever started in %s)", f.dataDir)
		}
	}
	cc := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	cfg, err := cc.ClientConfig()
	if err != nil {
		return mgmt{}, fmt.Errorf("read kubeconfig of the management cluster: %w", err)
	}
	namespace, _, err := cc.Namespace()
	if err != nil {
		return mgmt{}, fmt.Errorf("read kubeconfig of the management cluster: %w", err)
	}
	cfg.QPS = -1 // the API server protects itself
	cfg.UserAgent = "capstan"
	return mgmt{cfg, namespace}, nil
}

// open connects to the management cluster. An empty namespace is replaced by
// that of the kubeconfig.
func (f *mgmtFlags) open(env *Env, namespace *string) (*clusterctl.Client, error) {
	m, err := f.load(env)
	if err != nil {
		return nil, err
	}
	if *namespace == "" {
		*namespace = m.namespace
	}
	c, err := clusterctl.New(m.config)
	if err != nil {
		return nil, fmt.Errorf("%w (is the plane running? see `capstan status`)", err)
	}
	return c, nil
}
