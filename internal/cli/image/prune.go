// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
)

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
