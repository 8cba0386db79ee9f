// SPDX-License-Identifier: Apache-2.0

// Package diskspace reports how full a disk is.
package diskspace

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Space is what of a disk is used, and free for this user, in bytes. What is kept for
// others, of which there may be more than of both, is no part of it.
type Space struct {
	Used, Free int64
	// Files is how many files the disk can have (its inodes), and FreeFiles how many more.
	// Both are math.MaxInt64 where the file system has no limit.
	Files, FreeFiles int64
}

// Total is how much there is of the disk for this user, in bytes.
func (s Space) Total() int64 { return s.Used + s.Free }

// Of reads the space of the disk that a folder is on.
func Of(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, fmt.Errorf("check the disk of %s: %w", dir, err)
	}
	s := Space{int64(st.Blocks-st.Bfree) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize), int64(st.Files), int64(st.Ffree)}
	if s.Files == 0 {
		s.Files, s.FreeFiles = math.MaxInt64, math.MaxInt64
	}
	return s, nil
}

// Full reports whether an error was caused by a full disk, or a full quota on it.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Explain adds to an error what can be done if it is that the disk of a folder is full:
// to free space, and how.
func Explain(err error, dir, how string) error {
	if !Full(err) {
		return err
	}
	return fmt.Errorf("%w: free space on the disk of %s, %s", err, dir, how)
}
