// SPDX-License-Identifier: Apache-2.0

// Package bake fills containerd's store with images before any machine has one: a
// containerd runs for as long as that takes, in namespaces of its own, and leaves
// nothing but the store.
package bake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Options say what is baked.
type Options struct {
	// Containerd and Ctr are the programs that machines have.
	Containerd, Ctr string
	// Archives are the images.
	Archives []string
	// Progress is told of each image; nil is nobody.
	Progress func(string)
}

// Recipe is counted up when the same images give another store.
const Recipe = "bake 2"

// config keeps containerd to what an import needs: no service for kubelet, which
// would look for a network, and none for what other systems have.
const config = `version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.opt"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

const (
	// startTimeout is for the first answer of containerd, which takes it a tenth of
	// a second on a machine that has nothing else to do.
	startTimeout = time.Minute
	// stopTimeout is for its end, before which it closes its databases.
	stopTimeout = 30 * time.Second
	// maxOutput is how much of what containerd wrote is told when it fails.
	maxOutput = 2000
)

// Make fills the store that is a folder. Only root can: what images hold has owners,
// and overlays are mounted to unpack them.
func Make(ctx context.Context, o Options, store string) error {
	if os.Geteuid() != 0 {
		return errors.New("a store of container images is filled by root alone: run it as root")
	}
	// A socket's path may have 107 bytes: the store's own may be longer.
	state, err := os.MkdirTemp("", "capstan-bake-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }() // sockets and a log
	socket, file := filepath.Join(state, "s"), filepath.Join(state, "config.toml")
	text := fmt.Sprintf(config, store, filepath.Join(state, "state"), socket, socket+".ttrpc")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	d, err := start(o.Containerd, file, filepath.Join(state, "log"))
	if err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	err = d.answers(ctx, socket)
	for _, archive := range o.Archives {
		if err != nil {
			break
		}
		err = importImage(ctx, o, socket, archive)
	}
	if err == nil {
		err = dropLayers(ctx, o, socket)
	}
	if err = errors.Join(err, d.stop()); err != nil {
		return fmt.Errorf("%w%s", err, d.lastWords())
	}
	return tidy(store)
}

// importImage brings an image into the store, with its layers unpacked.
func importImage(ctx context.Context, o Options, socket, archive string) error {
	if o.Progress != nil {
		o.Progress("import " + filepath.Base(archive))
	}
	if err := ask(ctx, o, socket, "images", "import", "--snapshotter", "overlayfs", archive); err != nil {
		return fmt.Errorf("import %s: %w", filepath.Base(archive), err)
	}
	return nil
}

// dropLayers removes the layers of images as they came, which are unpacked by now. A
// container needs what is unpacked; only who sends an image elsewhere would need both.
func dropLayers(ctx context.Context, o Options, socket string) error {
	if err := ask(ctx, o, socket, "content", "prune", "references"); err != nil {
		return fmt.Errorf("drop layers that are unpacked: %w", err)
	}
	return nil
}

// ask has ctr do something with images of Kubernetes.
func ask(ctx context.Context, o Options, socket string, args ...string) error {
	cmd := exec.CommandContext(ctx, o.Ctr, append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out[max(0, len(out)-maxOutput):])))
	}
	return nil
}

// daemon is a containerd that runs.
type daemon struct {
	cmd   *exec.Cmd
	log   string
	ready bool
	ended chan struct{} // closed when err is set
	err   error
}

// start runs containerd as the first process of namespaces of its own: its mounts
// are nobody else's, it has no network, and all that it starts ends with it.
func start(program, config, log string) (*daemon, error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the daemon has its own
	d := &daemon{log: log, ended: make(chan struct{}), cmd: exec.Command(program, "--config", config)}
	d.cmd.Stdout, d.cmd.Stderr = out, out
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if d.cmd.SysProcAttr, err = apart(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go recovery.Func(context.Background(), func() {
		// The signal is sent when the thread ends that started it, so that one waits
		// for it.
		runtime.LockOSThread()
		err := d.cmd.Start()
		started <- err
		if err == nil {
			d.err = d.cmd.Wait()
			close(d.ended)
		}
	})()
	return d, <-started
}

// answers waits until containerd answers. It makes its socket when it is ready, so
// that there is nothing to watch before.
func (d *daemon) answers(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err == nil {
			d.ready = true
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for containerd: %w", context.Cause(ctx))
		case <-d.ended:
			return fmt.Errorf("containerd ended: %w", errors.Join(d.err, err))
		case <-again.C:
		}
	}
}

// stop ends containerd, by force if it does not end by itself. One that has never
// answered may not listen to signals either, and has nothing to lose.
func (d *daemon) stop() error {
	if !d.ready {
		_ = d.cmd.Process.Kill() // it may have ended
		<-d.ended
		return nil
	}
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	force := time.AfterFunc(stopTimeout, recovery.Func(context.Background(), func() { _ = d.cmd.Process.Kill() }))
	defer force.Stop()
	<-d.ended
	if d.err != nil {
		return fmt.Errorf("containerd: %w", d.err)
	}
	return nil
}

func (d *daemon) lastWords() string {
	text, err := os.ReadFile(d.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return ": its log ends: " + strings.TrimSpace(string(text[max(0, len(text)-maxOutput):]))
}

// tidy removes what a run leaves besides the store.
func tidy(store string) error {
	entries, err := os.ReadDir(store)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "io.containerd.content."), strings.HasPrefix(name, "io.containerd.metadata."), strings.HasPrefix(name, "io.containerd.snapshotter.v1.overlayfs"):
			errs = append(errs, os.RemoveAll(filepath.Join(store, name, "ingest")))
		default:
			errs = append(errs, os.RemoveAll(filepath.Join(store, name)))
		}
	}
	if _, err := os.Stat(filepath.Join(store, "io.containerd.metadata.v1.bolt", "meta.db")); errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, errors.New("containerd left no database"))
	}
	return errors.Join(errs...)
}
