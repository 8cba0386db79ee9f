// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// ErrTaken means that another identity has the address.
var ErrTaken = errors.New("another cluster of this host has it")

func (d *Dir) address(at netip.AddrPort) string {
	return filepath.Join(d.Path, addresses, at.String())
}

// Reserve assigns an address to an identity that is held, until Free or until its
// folder is removed.
func (d *Dir) Reserve(at netip.AddrPort, id string) error {
	mine, link := filepath.Join("..", FileName(id)), d.address(at)
	for {
		err := os.Symlink(mine, link)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if has, err := os.Readlink(link); err == nil && has == mine {
			return nil
		}
		switch _, err := os.Stat(link); {
		case err == nil:
			return ErrTaken
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := d.reclaim(link); err != nil {
			return err
		}
	}
}

// Free takes an address back.
func (d *Dir) Free(at netip.AddrPort, id string) error {
	link := d.address(at)
	if has, err := os.Readlink(link); err != nil || has != filepath.Join("..", FileName(id)) {
		return ignoreMissing(err)
	}
	return ignoreMissing(os.Remove(link))
}

// reclaim removes the link of a removed identity. Two concurrent calls would remove
// what the other has just created.
func (d *Dir) reclaim(link string) error {
	f, err := lockfile.Lock(filepath.Join(d.Path, addresses, lockFile))
	if err != nil {
		return err
	}
	defer func() { _ = lockfile.Unlock(f) }() // only locked
	if _, err := os.Stat(link); errors.Is(err, fs.ErrNotExist) {
		return ignoreMissing(os.Remove(link))
	}
	return nil
}
