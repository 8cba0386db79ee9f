// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines/bootresult"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	// maxSentinel and maxResult are more than the files contain.
	maxSentinel = 4 << 10
	maxResult   = 64 << 10
	// maxOutput is how much of the end of a log is read.
	maxOutput = 16 << 10
	// maxData is far more than the API server stores of bootstrap data.
	maxData = 8 << 20
)

// status is how far a machine is. Called with its lock.
func (b *Backend) status(m *machine, now containers.Status) (localinfra.MachineStatus, error) {
	s := localinfra.MachineStatus{
		Stage: localinfra.Booting, Message: "the machine to boot", ProviderID: m.ProviderID,
		Addresses: clusterv1.MachineAddresses{
			{Type: clusterv1.MachineHostName, Address: m.Name},
			{Type: clusterv1.MachineInternalIP, Address: m.Address.String()},
		},
	}
	if !m.Done && m.Failed == "" && now.State == containers.Running {
		if err := b.observe(m); err != nil {
			return s, err
		}
	}
	if m.Done || m.Failed != "" {
		m.coming.Store(false)
	}
	switch {
	case m.Failed != "":
		s.Stage, s.Message = localinfra.Failed, m.Failed
	case m.Done:
		s.Stage, s.Message = localinfra.Done, "machine runs as container "+m.name
	case now.State == containers.Running:
		s.Stage, s.Message = localinfra.Bootstrapping, bootresult.Waiting(m.Name, m.Began, bootTimeout)
	}
	return s, nil
}

// observe checks whether the bootstrap data has run, and ensures that the machine
// is published when it has. Called with the machine's lock.
func (b *Backend) observe(m *machine) error {
	if err := b.watch(m); err != nil { // before the check: changes in between are reported
		return err
	}
	done, err := b.there(m.name, bootresult.Sentinel, maxSentinel)
	if err != nil {
		return err
	}
	if done == nil {
		result, err := b.there(m.name, bootresult.Result, maxResult)
		if err != nil || result == nil && !b.late(m) {
			return err
		}
		// It may have ended well in between.
		if done, err = b.there(m.name, bootresult.Sentinel, maxSentinel); err != nil {
			return err
		}
		if done == nil && result != nil {
			m.Failed = b.failure(m, func(output, data []byte) string { return bootresult.Failure(result, output, data) })
		} else if done == nil {
			status, err := b.there(m.name, bootresult.Status, maxResult)
			if err != nil {
				return err
			}
			m.Failed = b.failure(m, func(output, data []byte) string { return bootresult.Late(bootTimeout, status, output, data) })
		}
	}
	m.Done = done != nil
	if err := b.keep(m); err != nil {
		m.Done, m.Failed = false, ""
		return err
	}
	m.watched()
	m.watched = nil
	return nil
}

// late reports whether the bootstrap data of a machine has had its time.
func (b *Backend) late(m *machine) bool { return !b.o.Clock.Now().Before(m.Began.Add(bootTimeout)) }

// there reads a file of a machine; nil if it is not there, and never nil if it is.
func (b *Backend) there(name, path string, limit int64) ([]byte, error) {
	text, err := b.o.Launcher.ReadFile(name, path, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, containers.ErrNotRunning):
		return nil, nil
	case err != nil:
		return nil, err
	case text == nil:
		return []byte{}, nil
	}
	return text, nil
}

// watch publishes the machine when one of the files may have appeared that contain
// the result of its bootstrap data, and when that has timed out. Called with the
// machine's lock.
func (b *Backend) watch(m *machine) error {
	if m.watched != nil {
		return nil
	}
	if m.Began.IsZero() { // its record is of an earlier version
		m.Began = b.o.Clock.Now().UTC()
		if err := b.keep(m); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(b.ctx)
	key := m.key()
	for _, path := range []string{bootresult.Sentinel, bootresult.Result} {
		seen, err := b.o.Launcher.Watch(ctx, m.name, path)
		if err != nil {
			cancel()
			return fmt.Errorf("watch %s: %w", path, err)
		}
		b.running.Start(func() {
			for {
				select {
				case _, ok := <-seen:
					if !ok {
						return
					}
					b.machines.Publish(key)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	timer := b.o.Clock.AfterFunc(m.Began.Add(bootTimeout).Sub(b.o.Clock.Now()), recovery.Func(context.Background(), func() { b.machines.Publish(key) }))
	m.watched = func() {
		timer.Stop()
		cancel()
	}
	return nil
}

// failure returns why the bootstrap data of a machine failed, and nothing of the
// data, from the end of what its commands wrote and the data itself.
func (b *Backend) failure(m *machine, say func(output, data []byte) string) string {
	const unknown = "its bootstrap data failed, and its output cannot be shown, since the data itself cannot be read"
	inVar, err := os.OpenRoot(filepath.Join(b.folder(m.name), varDir))
	if err != nil {
		return unknown
	}
	defer func() { _ = inVar.Close() }() // only read
	data, from := endOf(inVar, "lib/cloud/seed/nocloud/user-data", maxData)
	if len(data) == 0 || from > 0 {
		return unknown // it is not known what must be omitted
	}
	output, from := endOf(inVar, bootresult.Output, maxOutput)
	if from > 0 { // half a word would not be recognized as a secret
		_, output, _ = bytes.Cut(output, []byte("\n"))
	}
	return say(output, data)
}

// endOf returns the end of a file that a machine may have written, and where that starts;
// nothing unless it is a regular file.
func endOf(root *os.Root, name string, limit int64) (text []byte, from int64) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if err != nil {
		return nil, 0
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0
	}
	from = max(0, info.Size()-limit)
	if text, err = io.ReadAll(io.NewSectionReader(f, from, limit)); err != nil {
		return nil, 0
	}
	return text, from
}
