// SPDX-License-Identifier: Apache-2.0

// Package backup saves the data of a plane into one file, and restores a data
// directory from it: a snapshot of etcd, and the authorities and keys by which
// everything that the plane has issued is verified. What is derived from those is
// created again at a start.
//
// Machines are not included, not even simulated or container ones, which belong to
// their host.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/kit/sealedfile"
	"github.com/capstan-dev/capstan/internal/mgmtplane"
)

const (
	kind         = "backup"
	snapshotName = "etcd.snapshot"
	// etcd stores at most 8 GiB here, and its file may have that much again unused.
	maxSnapshot = 16 << 30
	// maxKey is many times the size of a certificate or a key.
	maxKey = 1 << 20
	// prefix is the prefix of the keys of a plane with an embedded etcd.
	prefix = "/registry"
)

// Report describes the content of a backup.
type Report struct {
	// Created is when it was created.
	Created time.Time
	// Bytes is the size of the snapshot of etcd in it.
	Bytes int64
}

// Save writes a backup of the plane of a data directory into a new file, whether
// the plane runs or not. It is encrypted for the recipients, if there are any.
func Save(ctx context.Context, dir datadir.Dir, file string, recipients ...age.Recipient) (Report, error) {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return Report{}, fmt.Errorf("%s is there already: choose another name, or remove it", file)
	}
	if err := tidy(filepath.Dir(file), saving); err != nil {
		return Report{}, err
	}
	spool, err := os.CreateTemp(filepath.Dir(file), saving)
	if err == nil {
		err = lockfile.Try(spool)
	}
	if err != nil {
		return Report{}, fmt.Errorf("make a file for the snapshot of etcd: %w", err)
	}
	defer func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }() // the data has been copied
	if err := save(ctx, dir, spool); err != nil {
		return Report{}, fmt.Errorf("take a snapshot of etcd: %w", err)
	}
	r, err := pack(dir, file, spool, recipients)
	if err != nil {
		return Report{}, fmt.Errorf("write %s: %w", file, err)
	}
	return r, nil
}

// save takes the snapshot: from the running plane, or from the data of a stopped
// one.
func save(ctx context.Context, dir datadir.Dir, w io.Writer) error {
	h, running, err := datadir.Running(dir)
	if err != nil {
		return err
	}
	external := len(h.EtcdServers) > 0
	switch {
	case external && !running:
		return fmt.Errorf("the store of the plane on %s is an etcd of its own, and the plane does not run: start it, or use etcdctl", dir)
	case external && h.Flags["etcd-prefix"] != "" && h.Flags["etcd-prefix"] != prefix:
		return fmt.Errorf("the plane on %s shares its etcd under %s, and one that is restored has an etcd of its own: use etcdctl", dir, h.Flags["etcd-prefix"])
	case external:
		return fromServer(ctx, h, dir, w)
	case running && h.EtcdSocket == "":
		return fmt.Errorf("the plane on %s is starting: try again when it is ready", dir)
	case running:
		return fromEndpoint(ctx, clientv3.Config{Endpoints: []string{"unix://" + h.EtcdSocket}}, w)
	}
	return mgmtplane.Snapshot(ctx, dir, w)
}

// fromServer takes it from the first server of an external etcd that provides it.
func fromServer(ctx context.Context, h datadir.Holder, dir datadir.Dir, w io.Writer) error {
	e := mgmtplane.ExternalEtcd{Store: pki.Store{CAFile: h.Flags["etcd-cafile"], CertFile: h.Flags["etcd-certfile"], KeyFile: h.Flags["etcd-keyfile"]}}
	if h.Flags["join"] != "" {
		s := pki.FoundStore(dir)
		e.CAFile, e.CertFile, e.KeyFile = s.CAFile, s.CertFile, s.KeyFile
	}
	var errs []error
	for _, server := range h.EtcdServers {
		cfg := clientv3.Config{Endpoints: []string{server}}
		var err error
		if strings.HasPrefix(server, "https://") {
			if cfg.TLS, err = e.TLS(); err != nil {
				return err
			}
		}
		counted := &counter{w: w}
		if err = fromEndpoint(ctx, cfg, counted); err == nil {
			return nil
		}
		if errs = append(errs, fmt.Errorf("%s: %w", server, err)); counted.n > 0 {
			break // a part of it is written
		}
	}
	return errors.Join(errs...)
}

type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// dialTimeout is for an etcd that does not answer.
const dialTimeout = 5 * time.Second

func fromEndpoint(ctx context.Context, cfg clientv3.Config, w io.Writer) error {
	cfg.DialTimeout, cfg.Logger = dialTimeout, zap.NewNop()
	c, err := clientv3.New(cfg)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // all data was received
	answering, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := c.Status(answering, cfg.Endpoints[0]); err != nil {
		return err
	}
	res, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, res.Snapshot)
	return errors.Join(err, res.Snapshot.Close())
}

// pack writes the file, completely or not at all.
func pack(dir datadir.Dir, file string, spool *os.File, recipients []age.Recipient) (Report, error) {
	size, err := spool.Seek(0, io.SeekEnd)
	if err != nil {
		return Report{}, err
	}
	keys, err := (pki.Folder{Dir: dir.PKI(), Now: time.Now}).Lasting()
	if err != nil {
		return Report{}, err
	}
	h := sealedfile.Header{Created: time.Now().UTC().Truncate(time.Second), Version: buildinfo.Read().Version, Contents: []sealedfile.Content{{Name: snapshotName, Size: size, Open: func() (io.ReadCloser, error) {
		return os.Open(spool.Name())
	}}}}
	for name, b := range keys {
		h.Contents = append(h.Contents, sealedfile.Bytes(name, b))
	}
	slices.SortFunc(h.Contents[1:], func(a, b sealedfile.Content) int { return strings.Compare(a.Name, b.Name) })
	out, err := os.CreateTemp(filepath.Dir(file), saving) // 0600
	if err != nil {
		return Report{}, err
	}
	if err = lockfile.Try(out); err == nil {
		err = sealedfile.Write(out, kind, h, recipients...)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Link(out.Name(), file) // unlike a rename, it replaces nothing
	}
	err = errors.Join(err, os.Remove(out.Name()))
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(file))
	}
	return Report{h.Created, size}, err
}
