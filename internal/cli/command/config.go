// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/repository"
)

// logLevel is the variable that sets the level of the log when -v does not.
const logLevel = "CLUSTERCTL_LOG_LEVEL"

// global are the flags of the root, which all commands have.
type global struct {
	flags     *pflag.FlagSet
	context   func() context.Context
	file      string
	verbosity int
	config    *config.Config // once it was read
}

// AddGlobal adds the flags that all commands have to the root: --config and -v.
func (e *Env) AddGlobal(root *cobra.Command) {
	g := &e.global
	g.flags, g.context = root.PersistentFlags(), root.Context
	g.flags.StringVar(&g.file, "config", "", "file or URL of the configuration (default: clusterctl.yaml in $XDG_CONFIG_HOME/cluster-api, then in $HOME/.cluster-api)")
	g.flags.IntVarP(&g.verbosity, "verbosity", "v", 0, "level of the log (default: $"+logLevel+")")
	// clusterctl's name of the flag is that of its short form, with two dashes.
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "v" {
			name = "verbosity"
		}
		return pflag.NormalizedName(name)
	})
}

// Config is the user's configuration from file and environment: the file of
// --config, or the one where clusterctl expects it, or none. It is read once.
func (e *Env) Config() (*config.Config, error) {
	if e.global.config != nil {
		return e.global.config, nil
	}
	if f := e.global.flags; f != nil && f.Changed("config") && e.global.file == "" {
		return nil, Misuse(errors.New("--config without a value: give one, or leave the flag out for its default"))
	}
	c, err := config.Load(config.Options{File: e.global.file, Lookup: e.LookupEnv, Fetch: e.fetch})
	if err != nil {
		return nil, err
	}
	e.global.config = c
	return c, nil
}

// LogLevel is the value of -v, and otherwise that of the environment or the
// configuration, whose errors are reported by the commands that need it.
func (e *Env) LogLevel() (int, error) {
	if e.global.flags.Changed("verbosity") {
		return e.global.verbosity, nil
	}
	text := e.Getenv(logLevel)
	if c, err := e.Config(); err == nil && text == "" {
		text, _ = c.Variable(logLevel)
	}
	if text == "" {
		return 0, nil
	}
	level, err := strconv.Atoi(text)
	if err != nil {
		return 0, Misuse(fmt.Errorf("%s is %q: give a number", logLevel, text))
	}
	return level, nil
}

// fetch downloads a configuration. As upstream's, it may be served over http.
func (e *Env) fetch(url string) ([]byte, error) {
	return repository.Read(e.global.context(), url, nil, repository.Options{Variable: e.LookupEnv, PlainHTTP: true})
}
