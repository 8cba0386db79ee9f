// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

const (
	// etcd allocates two write-ahead log segments of 64 MB before it answers.
	minFreeBytes = 200 << 20
	// maxSocketPath is what sockaddr_un holds on Linux, less the final zero.
	maxSocketPath = 107
	etcdTimeout   = 60 * time.Second
)

// startEtcd runs a single member of etcd that listens on Unix sockets only and
// returns its address. Nobody but the owner reaches them: their folder is 0700.
func (c *completed) startEtcd(ctx context.Context, p *Plane) (string, error) {
	if err := c.checkDisk(); err != nil {
		return "", err
	}
	sockets, err := c.socketDir(p)
	if err != nil {
		return "", err
	}
	client, peer := filepath.Join(sockets, "etcd.sock"), filepath.Join(sockets, "peer.sock")
	for _, socket := range []string{client, peer} { // left by a process that was killed; we hold the lock
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	server, err := c.runEtcd(ctx, etcdConfig(c.dir.Etcd(), client, peer), p)
	if err != nil {
		return "", err
	}
	p.stack.Push("etcd", func(context.Context) error { server.Close(); return nil })
	return "unix://" + client, nil
}

func etcdConfig(dir, client, peer string) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = "capstan", dir
	cfg.QuotaBackendBytes = 8 << 30
	// A single member elects itself: with etcd's usual second of election
	// timeout a start takes 0.8 s longer.
	cfg.TickMs, cfg.ElectionMs = 10, 100
	nowhere := url.URL{Scheme: "http", Host: "127.0.0.1:1"} // never dialled by a single member
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = []url.URL{nowhere}, []url.URL{nowhere}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: client}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: peer}} // Host: embed gives u.Host to the peer listener
	return cfg
}

// runEtcd starts etcd where its panics and fatal log lines become errors: it
// answers spoiled data and a full disk with those.
func (c *completed) runEtcd(ctx context.Context, cfg *embed.Config, p *Plane) (*embed.Etcd, error) {
	type result struct {
		server *embed.Etcd
		err    error
	}
	started, fatal := make(chan result, 1), make(chan error, 1)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(func(err error) {
		select {
		case fatal <- err:
		default:
		}
		p.fail(err)
	}))
	go func() {
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = fmt.Errorf("%v", v)
			}
			started <- r
		}()
		r.server, r.err = embed.StartEtcd(cfg)
	}()
	old := exists(filepath.Join(cfg.Dir, "member"))
	wrap := func(err error) error {
		if old && ctx.Err() == nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("start etcd on %s: %w (if its data is damaged, put a copy in its place, or remove it to start empty)", cfg.Dir, err)
		}
		return fmt.Errorf("start etcd on %s: %w", cfg.Dir, err)
	}
	deadline := time.After(etcdTimeout)
	var r result
	select {
	case r = <-started:
	case err := <-fatal:
		return nil, wrap(err)
	case <-deadline:
		return nil, wrap(fmt.Errorf("no answer in %s", etcdTimeout))
	}
	if r.server == nil && r.err == nil { // its goroutine ended in a fatal log line
		r.err = <-fatal
	}
	if r.err != nil {
		return nil, wrap(r.err)
	}
	select {
	case <-r.server.Server.ReadyNotify():
		go p.watchEtcd(r.server)
		return r.server, nil
	case err := <-fatal:
		return nil, wrap(err)
	case err := <-r.server.Err():
		r.server.Close()
		return nil, wrap(err)
	case <-deadline:
		r.server.Close()
		return nil, wrap(fmt.Errorf("not ready in %s", etcdTimeout))
	case <-ctx.Done():
		r.server.Close()
		return nil, wrap(ctx.Err())
	}
}

// watchEtcd ends when the server is closed.
func (p *Plane) watchEtcd(server *embed.Etcd) {
	select {
	case err, ok := <-server.Err():
		if ok && err != nil {
			p.fail(fmt.Errorf("etcd: %w", err))
		}
	case <-server.Server.StopNotify():
	}
}

// etcdLogger hands errors to klog, and to fatal what etcd would end the
// process for; then only the goroutine that said it ends.
func etcdLogger(fatal func(error)) *zap.Logger {
	hook := exitHook(fatal)
	return zap.New(etcdCore{}, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

type exitHook func(error)

func (h exitHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	h(errors.New(logLine(entry.Message, fields)))
	runtime.Goexit()
}

// etcdCore drops all below error, and the noise that every first start and
// every stop of a sound etcd makes.
type etcdCore struct{}

func (etcdCore) Enabled(l zapcore.Level) bool        { return l >= zapcore.ErrorLevel }
func (c etcdCore) With([]zapcore.Field) zapcore.Core { return c }
func (etcdCore) Sync() error                         { return nil }

func (c etcdCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (etcdCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if strings.Contains(e.Message, "failed to update storage version") || strings.HasPrefix(e.Message, "setting up serving") {
		return nil
	}
	klog.ErrorS(nil, "etcd reports an error", "message", logLine(e.Message, fields))
	return nil
}

// logLine appends the error among the fields, if any, to the message.
func logLine(message string, fields []zapcore.Field) string {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			return message + ": " + err.Error()
		}
	}
	return message
}

func (c *completed) checkDisk() error {
	if err := os.MkdirAll(c.dir.Etcd(), 0o700); err != nil {
		return fmt.Errorf("make folder of etcd: %w", err)
	}
	if err := os.Chmod(c.dir.Etcd(), 0o700); err != nil {
		return fmt.Errorf("close folder of etcd to others: %w", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(c.dir.Etcd(), &st); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", c.dir, err)
	}
	free := st.Bavail * uint64(st.Bsize)
	if need := uint64(minFreeBytes); !exists(filepath.Join(c.dir.Etcd(), "member")) && free < need {
		return fmt.Errorf("disk of %s is full: %d MiB free, %d needed", c.dir, free>>20, need>>20)
	}
	return nil
}

// socketDir is DIR/run, or a folder with a short name where that path would
// not fit a socket's address.
func (c *completed) socketDir(p *Plane) (string, error) {
	dir := filepath.Join(string(c.dir), "run")
	if len(filepath.Join(dir, "etcd.sock")) <= maxSocketPath {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make folder of sockets: %w", err)
		}
		return dir, os.Chmod(dir, 0o700)
	}
	dir, err := os.MkdirTemp("", "capstan-")
	if err != nil {
		return "", fmt.Errorf("make folder of sockets: %w", err)
	}
	p.stack.Push("folder of sockets", func(context.Context) error { return os.RemoveAll(dir) })
	return dir, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
