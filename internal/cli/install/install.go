// SPDX-License-Identifier: Apache-2.0

// Package install holds the commands that install providers on a management cluster,
// upgrade them and delete them: init, upgrade plan and apply, and delete; and those that
// show the configured providers.
package install

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/install"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/clusterctl/upgrade"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// selection are the flags that name providers.
type selection struct {
	core   string
	others map[clusterctlv1.ProviderType]*[]string
}

func (s *selection) add(cmd *cobra.Command, env *command.Env, form, hint string) {
	f := cmd.Flags()
	complete := func(kind clusterctlv1.ProviderType) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return known(env, kind), cobra.ShellCompDirectiveNoFileComp
		}
	}
	s.others = map[clusterctlv1.ProviderType]*[]string{}
	for _, p := range command.ProviderFlags() {
		if p.Type == clusterctlv1.CoreProviderType { // there is one at most
			f.StringVar(&s.core, p.Name, "", p.What+" provider, as "+form+hint)
		} else {
			s.others[p.Type] = new([]string)
			f.StringSliceVarP(s.others[p.Type], p.Name, p.Short, nil, p.What+" providers, as "+form)
		}
		_ = cmd.RegisterFlagCompletionFunc(p.Name, complete(p.Type))
	}
}

// known are the names of providers of a type.
func known(env *command.Env, kind clusterctlv1.ProviderType) (names []string) {
	cfg, err := env.Config()
	if err != nil {
		return nil
	}
	all, _ := cfg.Providers() // what is wrong with others is no matter here
	for _, p := range all {
		if p.Type == kind {
			names = append(names, p.Name)
		}
	}
	return names
}

func (s *selection) selected() install.Selection {
	out := install.Selection{}
	if s.core != "" {
		out[clusterctlv1.CoreProviderType] = []string{s.core}
	}
	for kind, names := range s.others {
		if len(*names) > 0 {
			out[kind] = *names
		}
	}
	return out
}

// flags are the names of those of a selection.
func flags() (names []string) {
	for _, p := range command.ProviderFlags() {
		names = append(names, p.Name)
	}
	return names
}

// waiting are the flags that choose whether to wait for providers.
type waiting struct {
	wait    bool
	seconds int
}

func (w *waiting) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wait, "wait-providers", false, "wait until the providers' controllers are available")
	cmd.Flags().IntVar(&w.seconds, "wait-provider-timeout", 5*60, "how many seconds to wait for providers")
}

func (w *waiting) limit() (time.Duration, error) {
	switch {
	case !w.wait:
		return 0, nil
	case w.seconds <= 0:
		return 0, command.Misuse(fmt.Errorf("--wait-provider-timeout %d: give the seconds to wait, at least 1", w.seconds))
	}
	return time.Duration(w.seconds) * time.Second, nil
}

// work is what a command works with.
type work struct {
	config  *config.Config
	options repository.Options
	mgmt    command.Mgmt
	cluster *apply.Cluster
	tell    func(string)
}

// open connects to the management cluster that is chosen.
func open(env *command.Env, flags *command.MgmtFlags) (w work, err error) {
	if w.config, w.options, err = env.Sources(); err != nil {
		return w, err
	}
	if w.mgmt, err = flags.Load(env); err != nil {
		return w, err
	}
	w.cluster, err = apply.New(w.mgmt.Config)
	w.tell = env.TimedPrinter()
	return w, err
}

// openToChange is open for a command that changes something: it names what it
// changes first.
func openToChange(env *command.Env, flags *command.MgmtFlags) (work, error) {
	w, err := open(env, flags)
	if err == nil {
		env.Say("Management cluster: %s", w.mgmt)
	}
	return w, err
}

func (w work) source() *install.Repositories {
	return &install.Repositories{Config: w.config, Options: w.options, Warn: w.tell}
}

func (w work) certManager() *install.CertManager {
	return &install.CertManager{Cluster: w.cluster, Config: w.config, Options: w.options, Progress: w.tell}
}

func (w work) installer() *install.Installer {
	return &install.Installer{Cluster: w.cluster, Source: w.source(), Progress: w.tell}
}

func (w work) upgrader() *upgrade.Upgrader {
	return &upgrade.Upgrader{Cluster: w.cluster, Source: w.source(), Progress: w.tell}
}

// told are providers in a line.
func told(all inventory.Providers) string {
	var names []string
	for _, p := range all {
		names = append(names, p.Name+" "+p.Version)
	}
	return strings.Join(names, ", ")
}
