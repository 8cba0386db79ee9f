// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/registry"
)

type pullOptions struct {
	mirrors, plain []string
}

func (o *options) newPull() *cobra.Command {
	p := &o.pull
	cmd := &cobra.Command{
		Use:   "pull NAME...",
		Short: "Fetch container images from registries",
		Long: `Fetch container images from registries, for the processor of this host. Credentials are
those of Docker: what "docker login" has stored, and its credential helpers. The mirrors and
authorities of registries.yaml in the data directory are used here, too. Run the same command
to continue an interrupted download.`,
		Example: `  capstan image pull registry.example.com/org/provider:v1.2.3
  capstan image pull busybox --mirror docker.io=https://mirror.example.com`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.runPull(cmd.Context(), args) },

		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringArrayVar(&p.mirrors, "mirror", nil, "mirror to ask before a registry, as REGISTRY=https://HOST/PATH; may be given several times")
	cmd.Flags().StringArrayVar(&p.plain, "plain-http", nil, "registry that speaks no TLS, as HOST:PORT; those of this host need not be named")
	return cmd
}

func (o *options) runPull(ctx context.Context, names []string) error {
	mirrors := map[string][]string{}
	for _, m := range o.pull.mirrors {
		host, mirror, ok := strings.Cut(m, "=")
		if !ok {
			return command.Misuse(fmt.Errorf("--mirror %s: write it as REGISTRY=https://HOST/PATH", m))
		}
		mirrors[host] = append(mirrors[host], mirror)
	}
	for _, name := range names {
		if _, err := registry.Name(name); err != nil {
			return command.Misuse(err)
		}
	}
	s, err := o.openContainers(ociimages.Options{Registry: registry.Options{Keychain: authn.DefaultKeychain, Mirrors: mirrors, PlainHTTP: o.pull.plain}})
	if err != nil {
		return err
	}
	for _, name := range names {
		i, err := s.Pull(ctx, name, ociimages.PullOptions{Progress: o.progress(), Registries: datadir.Dir(o.dataDir).Registries()})
		if err != nil {
			return err
		}
		o.env.Say("Container image %s is there: %s, %s.", strings.Join(i.Names, ", "), i.Digest, size(i.Size))
	}
	return nil
}

// progress prints the progress of layers.
func (o *options) progress() func(ociimages.Progress) {
	tell := o.tenths()
	return func(p ociimages.Progress) { tell(short(p.Layer), p.Have, p.Total) }
}

// tenths prints a line for each tenth of a file, which also suits a log. It may be
// called concurrently.
func (o *options) tenths() func(what string, have, total int64) {
	var mu sync.Mutex
	told := map[string]int64{}
	return func(what string, have, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if tenth := have * 10 / max(total, 1); total > 0 && tenth > told[what] {
			told[what] = tenth
			o.env.Say("%s %d %%", what, tenth*10)
		}
	}
}

func (o *options) openContainers(with ociimages.Options) (*ociimages.Store, error) {
	if o.dataDir == "" {
		return nil, command.Misuse(errors.New("--data-dir is needed: neither XDG_DATA_HOME nor HOME says where container images are kept"))
	}
	return ociimages.Open(datadir.Dir(o.dataDir).Images(), with)
}

// complete offers the names of all images that are not among the arguments.
func (o *options) complete(cmd *cobra.Command, args []string, to string) ([]string, cobra.ShellCompDirective) {
	names, directive := o.completeNodes(cmd, nil, to)
	images, err := o.containers()
	if err != nil {
		return names, directive
	}
	for _, i := range images {
		names = append(names, i.Names...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), directive
}

// completeNodes offers the versions of node images.
func (o *options) completeNodes(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	images, _, err := o.nodes(cmd.Context())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, i := range images {
		names = append(names, i.Version)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
