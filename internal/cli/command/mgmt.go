// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// MgmtFlags choose the management cluster a command works on.
type MgmtFlags struct {
	kubeconfig, context string
	// DataDir is the data directory of the plane.
	DataDir string
}

// Add adds --kubeconfig, --kubeconfig-context and --data-dir.
func (f *MgmtFlags) Add(cmd *cobra.Command, env *Env) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster (default: $KUBECONFIG, then that of the running plane)")
	cmd.Flags().StringVar(&f.context, "kubeconfig-context", "", "context to use in the kubeconfig (default: its current one)")
	cmd.Flags().StringVar(&f.DataDir, "data-dir", env.DefaultDataDir(), "data directory of the plane, where its kubeconfig is looked for")
}

// Mgmt is a chosen management cluster.
type Mgmt struct {
	Config *rest.Config
	// Namespace is that of the kubeconfig's context.
	Namespace string
}

// Load reads the kubeconfig that the flags and the environment choose.
func (f *MgmtFlags) Load(env *Env) (Mgmt, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: f.kubeconfig}
	switch {
	case f.kubeconfig != "":
	case env.Getenv("KUBECONFIG") != "":
		rules.Precedence = filepath.SplitList(env.Getenv("KUBECONFIG"))
	default:
		rules.ExplicitPath = filepath.Join(f.DataDir, "kubeconfig")
		if _, err := os.Stat(rules.ExplicitPath); errors.Is(err, fs.ErrNotExist) {
			return Mgmt{}, fmt.Errorf("no management cluster: start one with `capstan up`, or name one with --kubeconfig (no plane was ever started in %s)", f.DataDir)
		}
	}
	cc := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	cfg, err := cc.ClientConfig()
	if err != nil {
		return Mgmt{}, fmt.Errorf("read kubeconfig of the management cluster: %w", err)
	}
	namespace, _, err := cc.Namespace()
	if err != nil {
		return Mgmt{}, fmt.Errorf("read kubeconfig of the management cluster: %w", err)
	}
	cfg.QPS = -1 // the API server protects itself
	cfg.UserAgent = "capstan"
	return Mgmt{cfg, namespace}, nil
}
