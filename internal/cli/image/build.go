// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/nodeimages"
	"github.com/capstan-dev/capstan/internal/host/nodeimages/modules"
	"github.com/capstan-dev/capstan/internal/host/nodeimages/release"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/download"
	"github.com/capstan-dev/capstan/internal/kit/registry"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

type buildOptions struct {
	version, source, suite, mirror, network string
}

func (o *options) newBuild() *cobra.Command {
	b := &o.build
	cmd := &cobra.Command{
		Use:   "build --kubernetes-version VERSION",
		Short: "Build a node image for a version of Kubernetes",
		Long: `Build a node image for a version of Kubernetes, as root. The host needs mmdebstrap or
debootstrap.

With --source release, programs come from the releases of their projects, with their
published checksums, and container images from their registry. With --source modules
all is built from source through Go's module proxy, which needs Go, gcc and
libseccomp-dev, and takes some 10 minutes and 10 GiB the first time.

Run the same command to continue an interrupted build.`,
		Example: "  capstan image build --kubernetes-version v1.36.3",
		Args:    command.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.runBuild(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&b.version, "kubernetes-version", "", "version of Kubernetes, such as v1.36.3")
	f.StringVar(&b.source, "source", "release", "where parts come from: release or modules")
	f.StringVar(&b.suite, "debian-suite", "", "release of Debian (default: bookworm)")
	f.StringVar(&b.mirror, "debian-mirror", "", "where its packages are fetched (default: where the tool does by itself)")
	f.StringVar(&b.network, "network-program", "", "program capstan-network (default: the one in the folder of this program)")
	_ = cmd.MarkFlagRequired("kubernetes-version")
	_ = cmd.RegisterFlagCompletionFunc("source", cobra.FixedCompletions([]string{"release", "modules"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *options) runBuild(ctx context.Context) error {
	if _, err := nodecomponents.Defaults(o.build.version); err != nil {
		return command.Misuse(fmt.Errorf("--kubernetes-version: %w", err))
	}
	progress := func(line string) { o.env.Say("%s", line) }
	source, err := o.source()
	if err != nil {
		return err
	}
	network := o.build.network
	if network == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		network = filepath.Join(filepath.Dir(self), "capstan-network")
	}
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	i, err := s.Build(ctx, nodeimages.BuildOptions{
		Version: o.build.version, Source: source, Network: network, Progress: progress,
		Debian: nodeimages.Debian{Suite: o.build.suite, Mirror: o.build.mirror, Env: os.Environ()},
	})
	if err != nil {
		return err
	}
	o.env.Say("Node image %s of Kubernetes %s is there: %s; %s.", i.ID, i.Version, size(i.Bytes), partsOf(i.Parts))
	return nil
}

// source is the source of the parts.
func (o *options) source() (nodeimages.Source, error) {
	switch o.build.source {
	case "modules":
		return &modules.Source{Env: os.Environ()}, nil
	case "release":
		var with registry.Options
		if o.dataDir != "" {
			var err error
			if with, err = with.Read(datadir.Dir(o.dataDir).Registries()); err != nil {
				return nil, err
			}
		}
		registries, err := registry.New(with)
		if err != nil {
			return nil, err
		}
		return &release.Source{Registry: registries, Client: &download.Client{Progress: o.tenths()}}, nil
	}
	return nil, command.Misuse(errors.New("--source: release or modules"))
}
