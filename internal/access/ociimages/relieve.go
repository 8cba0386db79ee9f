// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
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
	if disk.used < fullPercent*disk.total()/100 {
		return nil, nil
	}
	have, err := s.Bytes()
	if err != nil {
		return nil, err
	}
	return s.Collect(ctx, CollectOptions{
		Keep:     func(m Image) bool { return m.Imported || s.now().Sub(m.Used) < young },
		MaxBytes: max(1, have-(disk.used-enoughPercent*disk.total()/100)),
	})
}

// space is what of a disk is used, and free for this user, in bytes. What is kept for
// others, of which there may be more than of both, is no part of it.
type space struct{ used, free int64 }

func (d space) total() int64 { return d.used + d.free }

func spaceOf(dir string) (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return space{}, fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	return space{int64(st.Blocks-st.Bfree) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize)}, nil
}
