// SPDX-License-Identifier: Apache-2.0

package nodeimages

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

// preload imports images into containerd's store before any machine has it: a temporary
// containerd runs in separate namespaces and leaves only the store.
type preload struct {
	// Containerd and Ctr are the programs of the machines.
	Containerd, Ctr string
	// Archives are the files of the images.
	Archives []string
	// Progress is called for each image; it may be nil.
	Progress func(string)
}

// preloadRecipe is incremented when the same images result in another store.
const preloadRecipe = "bake 2"

// preloadConfig limits containerd to what an import needs: no service for kubelet, which
// would require a network, and none for other systems.
const preloadConfig = `version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.opt"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`

const (
	// startTimeout is for the first response of containerd, which takes a tenth of a
	// second on an idle machine.
	startTimeout = time.Minute
	// stopTimeout is for its exit, before which it closes its databases.
	stopTimeout = 30 * time.Second
)

// make fills a folder with a store. It needs root: files in images have owners, and
// overlays are mounted to unpack them.
func (o preload) make(ctx context.Context, store string) error {
	if os.Geteuid() != 0 {
		return errors.New("a store of container images is filled by root alone: run it as root")
	}
	// A socket's path may have 107 bytes: that of the store may be longer.
	state, err := os.MkdirTemp("", "capstan-bake-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }() // sockets and a log
	socket, file := filepath.Join(state, "s"), filepath.Join(state, "config.toml")
	text := fmt.Sprintf(preloadConfig, store, filepath.Join(state, "state"), socket, socket+".ttrpc")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	d, err := startDaemon(o.Containerd, file, filepath.Join(state, "log"))
	if err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	err = d.answers(ctx, socket)
	for _, archive := range o.Archives {
		if err != nil {
			break
		}
		err = o.importImage(ctx, socket, archive)
	}
	if err == nil {
		err = o.dropLayers(ctx, socket)
	}
	if err = errors.Join(err, d.stop()); err != nil {
		return fmt.Errorf("%w%s", err, d.lastWords())
	}
	return tidy(store)
}

// importImage imports an image into the store and unpacks its layers.
func (o preload) importImage(ctx context.Context, socket, archive string) error {
	if o.Progress != nil {
		o.Progress("import " + filepath.Base(archive))
	}
	if err := o.ask(ctx, socket, "images", "import", "--snapshotter", "overlayfs", archive); err != nil {
		return fmt.Errorf("import %s: %w", filepath.Base(archive), err)
	}
	return nil
}

// dropLayers removes the compressed layers of images, which are unpacked by now. A
// container needs only the unpacked layers; only pushing an image would need both.
func (o preload) dropLayers(ctx context.Context, socket string) error {
	if err := o.ask(ctx, socket, "content", "prune", "references"); err != nil {
		return fmt.Errorf("drop layers that are unpacked: %w", err)
	}
	return nil
}

// ask runs ctr in the namespace of Kubernetes' images.
func (o preload) ask(ctx context.Context, socket string, args ...string) error {
	cmd := exec.CommandContext(ctx, o.Ctr, append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return run(ctx, cmd)
}

// daemon is a running containerd.
type daemon struct {
	cmd   *exec.Cmd
	log   string
	ready bool
	ended chan struct{} // closed when err is set
	err   error
}

// startDaemon runs containerd as the first process of separate namespaces: no other
// process sees its mounts, it has no network, and its children end with it.
func startDaemon(program, config, log string) (*daemon, error) {
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the daemon has its own descriptor
	d := &daemon{log: log, ended: make(chan struct{}), cmd: exec.Command(program, "--config", config)}
	d.cmd.Stdout, d.cmd.Stderr = out, out
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if d.cmd.SysProcAttr, err = apart(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go recovery.Func(context.Background(), func() {
		err := recovery.Call(context.Background(), func() error {
			// The signal is sent when the thread exits that started it, so that thread waits
			// for it.
			runtime.LockOSThread()
			return d.cmd.Start()
		})
		defer close(d.ended)
		started <- err
		if err == nil {
			d.err = d.cmd.Wait()
		}
	})()
	return d, <-started
}

// answers waits until containerd responds. It creates its socket when it is ready,
// so there is nothing to watch before.
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

// stop stops containerd, and kills it after a timeout. A containerd that never
// responded is killed immediately: it may ignore signals, and has no data to lose.
func (d *daemon) stop() error {
	if !d.ready {
		_ = d.cmd.Process.Kill() // it may have exited
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

// tidy removes what a run leaves in addition to the store.
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
