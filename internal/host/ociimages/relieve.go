// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/diskspace"
)

// The thresholds of a kubelet's image garbage collection, in percent of the disk.
const (
	fullPercent   = 85
	enoughPercent = 80
	// young is the age of images that may be about to be used.
	young = 2 * time.Minute
)

// Relieve removes images if their disk is full to 85 % or more, until it is full to
// 80 %: those that are not in use, the least recently used first. It keeps imported
// images, which no registry may have, and those that were just added or used. It
// returns the removed images.
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

// Remedy is what users can do if the disk of a store is full.
const Remedy = `such as by removing images that no Pod or machine uses ("capstan image remove"), and what builds have kept ("capstan image remove --cache")`

// full adds a remedy to an error that means that the disk is full, and removes what
// belongs to no image, such as those layers of an image that did fit: they would
// take the space of all others. If even that fails, the next collection or removal
// does it.
func (s *Store) full(ctx context.Context, err error) error {
	if diskspace.Full(err) {
		_ = s.sweep(ctx)
	}
	return diskspace.Explain(err, s.Dir(), Remedy)
}
