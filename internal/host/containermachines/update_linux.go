// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines/bootresult"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

var _ localinfra.Updater = (*Backend)(nil)

const (
	// updating is how long an update may take; on a host that has nothing else to
	// do it takes half a minute.
	updating = 15 * time.Minute
	// lastLines is how much of a command's output is reported with its failure.
	lastLines = 600
)

// errUnfinished is the error of an update until it has another, or none.
var errUnfinished = errors.New("the update has panicked: the log has the reason")

// errStopped is the error of sending to a machine that no longer reads.
var errStopped = errors.New("the machine has stopped reading")

// update is one that is under way, or has failed.
type update struct {
	version string
	message string
	err     error         // why it failed, once it has ended
	ended   chan struct{} // closed then
}

func (u *update) underWay() bool {
	select {
	case <-u.ended:
		return false
	default:
		return true
	}
}

// UpdateMachine implements localinfra.Updater. The machine keeps the Debian of its
// creation, its address, its disk and its Pods.
func (b *Backend) UpdateMachine(_ context.Context, want localinfra.Machine) (localinfra.Progress, error) {
	p, err := b.updateMachine(want)
	if err != nil {
		return p, fmt.Errorf("update container machine %s to %s: %w", want.NamespacedName, want.Version, err)
	}
	return p, nil
}

func (b *Backend) updateMachine(want localinfra.Machine) (p localinfra.Progress, err error) {
	want.Provisioned = true // none is created for it
	m, err := b.machine(want)
	if err != nil {
		return p, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch u := m.update; {
	case m.gone || !m.Done:
		return p, errors.New("it is no node")
	case u != nil && u.underWay():
		return localinfra.Progress{Message: u.message}, nil
	case u != nil && u.err != nil && u.version == want.Version:
		m.update = nil
		return p, u.err
	}
	from, err := b.o.Images.Find(m.Image)
	if err != nil {
		return p, err
	}
	if cmp.Or(m.Version, from.Version) == want.Version {
		return localinfra.Progress{Done: true}, nil
	}
	to, err := b.o.Images.Find(want.Version)
	if err != nil {
		return p, err
	}
	u := &update{version: want.Version, err: errUnfinished, ended: make(chan struct{}), message: "copying Kubernetes " + want.Version + " to the machine"}
	m.update = u
	b.running.Start(func() {
		ctx, cancel := context.WithTimeout(b.ctx, updating)
		defer cancel()
		defer close(u.ended)
		err := b.renew(ctx, m, u, from, to)
		m.mu.Lock()
		defer m.mu.Unlock()
		if err == nil && !m.gone {
			m.Version = to.Version
			err = b.keep(m)
		}
		u.err = err
		if err != nil {
			b.o.Log.Error(err, "Updating a machine", "container", m.name, "version", to.Version)
		}
	})
	return localinfra.Progress{Message: u.message}, nil
}

// renew sends a machine what it needs of another image, and runs the update there.
func (b *Backend) renew(ctx context.Context, m *machine, u *update, from, to Image) error {
	read, write := io.Pipe()
	sent := make(chan error, 1)
	go recovery.Func(ctx, func() {
		err := recovery.Call(ctx, func() error {
			return sendUpgrade(write, from, to)
		})
		_ = write.CloseWithError(err) // it never fails
		sent <- err
	})()
	err := b.execute(ctx, m.name, receiveCommand(), read)
	_ = read.CloseWithError(errStopped) // it never fails
	// An archive that ends early is one to tar.
	if sending := <-sent; sending != nil && (err == nil || !errors.Is(sending, errStopped)) {
		err = sending
	}
	if err != nil {
		return fmt.Errorf("copy Kubernetes to it: %w", err)
	}
	m.mu.Lock()
	u.message = "bringing images, control plane and kubelet to " + to.Version
	m.mu.Unlock()
	ignore := ""
	if b.o.Host.CgroupV1 {
		ignore = "SystemVerification"
	}
	if err := b.execute(ctx, m.name, renewCommand(ignore), nil); err != nil {
		return fmt.Errorf("change Kubernetes in it: %w", err)
	}
	return nil
}

// execute runs a command in a machine; what it wrote last is in the error.
func (b *Backend) execute(ctx context.Context, name string, args []string, in io.Reader) error {
	said := &tail{}
	code, err := b.o.Launcher.Exec(ctx, name, args, containers.Streams{In: in, Out: said, Err: said})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, strings.Join(strings.Fields(bootresult.Mask(said.String())), " "))
	}
	return err
}

// tail keeps the end of what is written to it. One command writes at a time.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - 4*lastLines; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	text := t.text
	if over := len(text) - lastLines; over > 0 {
		// Half a word would not be recognized as a secret.
		if _, whole, found := bytes.Cut(text[over:], []byte(" ")); found {
			text = whole
		}
	}
	return string(text)
}
