// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/diskspace"
)

// The thresholds of a kubelet's own collection of images, in percent of the disk.
const (
	fullPercent   = 85
	enoughPercent = 80
	// young is an image that somebody may be about to use.
	young = 2 * time.Minute
)

// Relieve removes images if the disk that they are on is full to 85 % and more, until
// it is to 80 %: those that are not in use, the longest unused first. Imported ones
// stay, for no registry may have them, and those that came or were used just now. It returns the images that went.
func (s *Store) Relieve(ctx context.Context) ([]Image, error) {
	disk, err := s.disk(s.Dir())
	if err != nil {
		return nil, err
	}
	if disk.Used < fullPercent*disk.Total()/100 {
		return nil, nil
	}
	have, err := s.Bytes()
	if err != nil {
		return nil, err
	}
	return s.Collect(ctx, CollectOptions{
		Keep:     func(m Image) bool { return m.Imported || s.now().Sub(m.Used) < young },
		MaxBytes: max(1, have-(disk.Used-enoughPercent*disk.Total()/100)),
	})
}

// full adds to an error what can be done if it is that the disk is full, and removes what
// is of no image, such as the layers that did fit of one: it would be in the way of all
// others. Where even that fails, whoever collects or removes next does it.
func (s *Store) full(ctx context.Context, err error) error {
	if diskspace.Full(err) {
		_ = s.sweep(ctx)
	}
	return diskspace.Explain(err, s.Dir(), `such as by removing images that no Pod uses ("capstan image remove")`)
}
