// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"expvar"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	// minFreeBytes is the disk space that a plane with a few clusters uses.
	minFreeBytes = 200 << 20
	// minFreeAgain is for existing data: a plane with less would stop soon after it
	// was ready.
	minFreeAgain = 16 << 20
	etcdTimeout  = 60 * time.Second
	// electEvery is the period of attempts to make a new member elect itself.
	electEvery = 5 * time.Millisecond

	// A start reads all of the write-ahead log that is on disk, and the entries
	// after the last snapshot again. By default etcd retains five segments of 64
	// MB. Three of 4 MiB usually contain the last three snapshots, each after 1,000
	// requests.
	segmentBytes = 4 << 20
	segments     = 3
)

// shortSegments sets what is not in etcd's configuration.
var shortSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = segmentBytes })

// member is the embedded etcd. One goroutine starts it, watches it and closes
// it; the plane's stack waits for that goroutine.
type member struct {
	plane  *Plane
	dir    string
	socket string // where it serves clients
	old    bool   // data existed before this start

	server   *etcdserver.EtcdServer // once ready
	ready    chan struct{}          // closed when it serves
	stopping chan struct{}          // closed to have it closed
	ended    chan struct{}          // closed when it has stopped completely, or is lost

	once sync.Once
	lost chan struct{} // closed when it failed
}

// startEtcd runs a single member of etcd that listens only on Unix sockets and
// returns its address, before it serves there. Only the owner can reach them: their
// directory is 0700.
func (c *completed) startEtcd(p *Plane) (*member, string, error) {
	if err := c.checkDisk(); err != nil {
		return nil, "", err
	}
	sockets, err := c.socketDir(p)
	if err != nil {
		return nil, "", err
	}
	client, peer := filepath.Join(sockets, clientSocket), filepath.Join(sockets, peerSocket)
	for _, socket := range []string{client, peer} { // left by a process that was killed; we hold the lock
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
	}
	m := &member{plane: p, dir: c.dir.Etcd(), socket: client, old: exists(filepath.Join(c.dir.Etcd(), "member")),
		ready: make(chan struct{}), stopping: make(chan struct{}), ended: make(chan struct{}), lost: make(chan struct{})}
	cfg := etcdConfig(m.dir, client, peer)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(m.lose))
	go recovery.Func(context.Background(), func() { m.run(cfg) })()
	p.etcd = m
	p.stack.Push("etcd", m.stop)
	return m, "unix://" + client, nil
}

// awaitEtcd returns when etcd serves, and has the initial objects of a new store;
// the keys of an old store are counted.
func (c *completed) awaitEtcd(ctx context.Context, m *member) error {
	select {
	case <-m.ready:
		if err := errors.Join(os.Chmod(m.socket, 0o600), os.Chmod(filepath.Join(filepath.Dir(m.socket), peerSocket), 0o600), m.plane.Describe(func(h *datadir.Holder) { h.EtcdSocket = m.socket })); err != nil {
			return err
		}
		if !m.old {
			return c.seed(ctx, m.server)
		}
		return c.count(ctx, m.server)
	case err := <-m.plane.errs:
		return err
	case <-time.After(etcdTimeout):
		return fmt.Errorf("start etcd on %s: not ready in %s", m.dir, etcdTimeout)
	case <-ctx.Done():
		return fmt.Errorf("start etcd on %s: %w", m.dir, ctx.Err())
	}
}

// count reports how many keys the store has.
func (c *completed) count(ctx context.Context, server *etcdserver.EtcdServer) error {
	all, err := server.Range(ctx, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true, Serializable: true})
	if err != nil {
		return fmt.Errorf("count the keys of etcd: %w", err)
	}
	c.Stored(all.Count)
	return nil
}

func etcdConfig(dir, client, peer string) *embed.Config {
	shortSegments()
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = memberName, dir
	cfg.QuotaBackendBytes = 8 << 30
	// Each tick runs the process, also in steady state. It is there for other
	// members: a single one would wait a tick or more before it elects itself,
	// which elect avoids. An election takes at least five ticks, according to etcd.
	cfg.TickMs, cfg.ElectionMs = 1000, 5000
	// etcd caches requests in memory for members that fall behind, 5,000 by
	// default, and a start caches all since the last snapshot, up to 10,000: 20 to
	// 40 MiB of a heap with 100 clusters. A single member has no others that could
	// fall behind. A snapshot names the members and little else.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 1000, 100
	cfg.MaxWalFiles = segments
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = []url.URL{nowhere}, []url.URL{nowhere}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Path: client}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: peer}} // Host: embed gives u.Host to the peer listener
	return cfg
}

// nowhere is the address of a single member, which no client dials, and memberName
// its name: restored data must have the same.
var nowhere = url.URL{Scheme: "http", Host: "127.0.0.1:1"}

const memberName = "capstan"

// EtcdMember returns the identity of the embedded etcd: its name, the URL of its
// peer, and its cluster.
func EtcdMember() (name, peer, cluster string) {
	return memberName, nowhere.String(), memberName + "=" + nowhere.String()
}

// Snapshot writes a snapshot of the embedded etcd of a data directory, as etcd
// itself does, with a checksum. No plane may run there.
func Snapshot(ctx context.Context, dir datadir.Dir, w io.Writer) (err error) {
	c, err := Options{Dir: string(dir)}.complete()
	if err != nil {
		return err
	}
	if !exists(filepath.Join(c.dir.Etcd(), "member")) {
		return fmt.Errorf("no plane has kept anything in %s", dir)
	}
	p := &Plane{errs: make(chan error, 1), dir: c.dir}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.StopTimeout)
		defer cancel()
		err = errors.Join(err, p.Stop(stopping))
	}()
	if err := c.acquire(p); err != nil {
		return err
	}
	m, _, err := c.startEtcd(p)
	if err != nil {
		return err
	}
	if err := c.awaitEtcd(ctx, m); err != nil {
		return err
	}
	sum := sha256.New()
	s := m.server.Backend().Snapshot()
	_, err = s.WriteTo(io.MultiWriter(w, sum))
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// run starts etcd, watches it and closes it. Panics at the start become errors:
// etcd panics on corrupt data.
func (m *member) run(cfg *embed.Config) {
	defer close(m.ended)
	defer func() {
		if v := recover(); v != nil {
			m.fail(fmt.Errorf("%v", v))
		}
	}()
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		m.fail(err)
		return
	}
	election := time.NewTicker(electEvery)
	defer election.Stop()
	for ready := server.Server.ReadyNotify(); ; {
		select {
		case <-election.C:
			elect(server.Server)
			continue
		case <-ready:
			election.Stop()
			m.server = server.Server
			close(m.ready)
			ready = nil
			continue
		case err := <-server.Err():
			m.fail(err)
		case <-server.Server.StopNotify():
			m.fail(errors.New("stopped by itself"))
		case <-m.stopping:
		case <-m.lost:
			// Its goroutines exited at any point, some with locks: closing the rest
			// could wait forever.
			return
		}
		server.Close()
		return
	}
}

// elect makes a single member elect itself now, instead of after a wait for others:
// it receives the message that a resigning leader sends to its successor. It does
// so only after raft has recorded that all committed entries are applied: in an
// election raft would read those that are not, and panic, because etcd drops
// applied entries concurrently.
func elect(s *etcdserver.EtcdServer) {
	status, _ := expvar.Get("raft.status").(expvar.Func)().(raft.Status) // etcd publishes it only there
	if status.Commit == 0 || status.Applied < status.Commit {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	id := uint64(s.MemberID())
	_ = s.Process(ctx, raftpb.Message{Type: raftpb.MsgTimeoutNow, From: id, To: id}) // fails only when it stops, which its caller detects
}

// stop closes etcd and waits until it is closed.
func (m *member) stop(ctx context.Context) error {
	close(m.stopping)
	select {
	case <-m.ended:
		return nil
	case <-m.lost: // while it was being closed
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closed reports whether etcd has stopped completely in this process.
func (m *member) closed() bool {
	select {
	case <-m.lost:
		return false
	default:
	}
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// lose is called where etcd would have ended the process.
func (m *member) lose(err error) {
	m.fail(err)
	m.once.Do(func() { close(m.lost) })
}

func (m *member) fail(err error) {
	err = fmt.Errorf("etcd on %s: %w", m.dir, err)
	select {
	case <-m.ready:
	default:
		if m.old && !errors.Is(err, fs.ErrPermission) && !diskspace.Full(err) {
			err = fmt.Errorf("%w (if its data is damaged, put a copy in its place, or remove it to start empty)", err)
		}
	}
	m.plane.fail(err)
}

// etcdLogger sends errors to klog, and those for which etcd would end the process
// to fatal; then only the goroutine that logged the error ends.
func etcdLogger(fatal func(error)) *zap.Logger {
	hook := exitHook(fatal)
	return zap.New(etcdCore{}, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

type exitHook func(error)

func (h exitHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	if cause := errorField(fields); cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	h(err)
	runtime.Goexit()
}

// etcdCore drops all entries below error, and the expected errors at every first
// start and every stop of a healthy etcd.
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
	klog.ErrorS(errorField(fields), "etcd reports an error", "message", e.Message)
	return nil
}

// errorField returns the error among the fields, nil if there is none.
func errorField(fields []zapcore.Field) error {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			return err
		}
	}
	return nil
}

func (c *completed) checkDisk() error {
	if err := os.MkdirAll(c.dir.Etcd(), 0o700); err != nil {
		return fmt.Errorf("make folder of etcd: %w", err)
	}
	if err := os.Chmod(c.dir.Etcd(), 0o700); err != nil {
		return fmt.Errorf("close folder of etcd to others: %w", err)
	}
	disk, err := diskspace.Of(c.dir.Etcd())
	if err != nil {
		return err
	}
	need := int64(minFreeBytes)
	if exists(filepath.Join(c.dir.Etcd(), "member")) {
		need = minFreeAgain
	}
	if disk.Free < need {
		return fmt.Errorf("disk of %s is full: %d MiB free, %d needed; make room, then start again", c.dir, disk.Free>>20, need>>20)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
