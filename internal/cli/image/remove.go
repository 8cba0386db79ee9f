// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/nodeimages"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
)

func (o *options) remove(ctx context.Context, names []string) error {
	if len(names) == 0 && !o.cache {
		return command.Misuse(errors.New("name images by version, name or ID, or say --cache"))
	}
	nodes, err := o.open(ctx)
	if err != nil {
		return err
	}
	containers, err := o.openContainers(ociimages.Options{})
	if err != nil {
		return err
	}
	if !o.yes {
		what := names
		if o.cache {
			what = append(slices.Clone(names), "what builds have kept")
		}
		if err := o.env.Confirm(ctx, fmt.Sprintf("Removed from %s and %s permanently: %s.", nodes.Dir(), containers.Dir(), strings.Join(what, ", "))); err != nil {
			return err
		}
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, removeOne(ctx, nodes, containers, name))
	}
	if o.cache {
		errs = append(errs, nodes.ClearCache())
	}
	return errors.Join(errs...)
}

// removeOne removes the image of a name, of either kind.
func removeOne(ctx context.Context, nodes *nodeimages.Store, containers *ociimages.Store, name string) error {
	_, err := containers.Find(name)
	if errors.As(err, new(*ociimages.MissingError)) && (!strings.ContainsAny(name, "/:") || strings.HasPrefix(name, "sha256:")) {
		return nodes.Remove(ctx, name)
	}
	if err != nil {
		return err
	}
	if i, err := nodes.Find(name); err == nil {
		return fmt.Errorf("%s is a container image, and the node image %s: give more digits", name, i.ID)
	}
	return containers.Remove(ctx, name)
}

func (o *options) newPrune() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the container images that no Pod runs",
		Long: `Remove the container images that no Pod runs, pulled and imported, and layers that no
image has any more. Node images stay.`,
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.prune(cmd.Context()) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return cmd
}

func (o *options) prune(ctx context.Context) error {
	s, err := o.openContainers(ociimages.Options{})
	if err != nil {
		return err
	}
	if !o.yes {
		if err := o.env.Confirm(ctx, fmt.Sprintf("Removed from %s permanently: container images that no Pod runs, also imported ones.", s.Dir())); err != nil {
			return err
		}
	}
	// A plane of this folder holds the images that its Pods run, so that nothing else
	// needs to be asked.
	gone, err := s.Collect(ctx, ociimages.CollectOptions{UnusedFor: 1})
	var sum int64
	for _, i := range gone {
		o.env.Say("Removed %s: %s.", i.Digest, strings.Join(i.Names, ", "))
		sum += i.Size
	}
	if err == nil {
		o.env.Say("Images removed: %d, of up to %s.", len(gone), size(sum))
	}
	return err
}
