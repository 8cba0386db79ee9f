// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	"github.com/capstan-dev/capstan/internal/kit/connlistener"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Plane is a running management plane.
type Plane struct {
	graph  *garbagecollector.GraphBuilder // the objects in the garbage collector's cache
	stack  lifecycle.Stack
	errs   chan error
	config *rest.Config
	served *connlistener.Listener
	addr   string
	dir    datadir.Dir

	etcd   *member // nil unless it is the embedded one
	others others

	lock   *datadir.Lock
	mu     sync.Mutex // guards holder
	holder datadir.Holder

	stop    sync.Once
	stopErr error
}

// Start starts a plane and returns when it answers and its controllers run. ctx
// bounds only the start. A start that fails leaves nothing running.
func Start(ctx context.Context, o Options) (*Plane, error) {
	c, err := o.complete()
	if err != nil {
		return nil, err
	}
	if c.kubernetes, err = kubernetesVersion(); err != nil {
		return nil, err
	}
	return c.start(ctx)
}

func (c *completed) start(ctx context.Context) (*Plane, error) {
	p := &Plane{errs: make(chan error, 1), dir: c.dir}
	if err := c.run(ctx, p); err != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifecycle.StopTimeout)
		defer cancel()
		return nil, errors.Join(p.explain(err), p.Stop(stopping))
	}
	return p, nil
}

func (c *completed) run(ctx context.Context, p *Plane) error {
	if err := c.acquire(p); err != nil {
		return err
	}
	// It has the errors that CatchExits caught.
	lifecycle.When(&p.stack, "relay of fatal errors", c.Fatal, p.fail)
	listener, err := c.listen(p) // first, so that a port in use is reported immediately
	if err != nil {
		return err
	}
	keys := pki.Folder{Dir: c.dir.PKI(), Now: c.now}
	if err := keys.Ensure(c.hosts, c.Kubelets...); err != nil {
		return err
	}
	own, err := writeOwnObjects(ctx)
	if err != nil {
		return err
	}
	servers, await, err := c.etcd(p)
	if err != nil {
		return err
	}
	if err := c.connect(p); err != nil {
		return err
	}
	config, err := c.configure(ctx, apiServerInput{listener, keys, servers, own, c.dialer(p, keys)}) // while etcd starts
	if err != nil {
		return fmt.Errorf("configure the API server: %w", err)
	}
	if err := await(ctx); err != nil {
		return err
	}
	if err := c.meet(ctx, p, keys); err != nil {
		return err
	}
	c.Progress("starting the API server")
	if err := c.startAPIServer(ctx, p, config); err != nil {
		return err
	}
	if err := own.serve(p); err != nil {
		return err
	}
	if err := writeKubeconfig(c.dir.Kubeconfig(), keys, "https://"+p.addr); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if c.Install != nil {
		c.Progress("installing definitions")
		if err := c.Install(ctx, p.Config()); err != nil {
			return err
		}
	}
	if err := c.join(ctx, p); err != nil {
		return err
	}
	c.Progress("starting its controllers")
	if err := c.startControllers(p, keys); err != nil {
		return fmt.Errorf("start controllers of the API server: %w", err)
	}
	c.keepCertificates(p, keys)
	if err := own.wait(ctx, p); err != nil {
		return fmt.Errorf("write the API server's roles and priority classes: %w", err)
	}
	return p.Describe(func(h *datadir.Holder) { h.Address = p.addr })
}

// etcd returns the servers to use, external or embedded, and a function that waits
// until they answer.
func (c *completed) etcd(p *Plane) (servers []string, await func(context.Context) error, err error) {
	if len(c.Etcd.Servers) > 0 {
		return c.Etcd.Servers, func(ctx context.Context) error { return c.reach(ctx, p) }, nil
	}
	c.Progress("starting etcd")
	m, server, err := c.startEtcd(p)
	return []string{server}, func(ctx context.Context) error { return c.awaitEtcd(ctx, m) }, err
}

func (c *completed) acquire(p *Plane) error {
	p.holder = datadir.Holder{PID: syscall.Getpid(), Version: c.Version, Since: c.now(), Providers: c.Providers, EtcdServers: c.Etcd.Servers, Flags: c.Flags}
	lock, err := datadir.Acquire(c.dir, p.holder)
	if err != nil {
		return err
	}
	p.lock = lock
	p.stack.Push("lock of the data directory", func(context.Context) error {
		if p.etcd != nil && !p.etcd.closed() {
			return nil // the end of the process releases it, and the files of etcd with it
		}
		return lock.Release()
	})
	return nil
}

func (c *completed) listen(p *Plane) (net.Listener, error) {
	ln, err := net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("address %s is taken by another program: choose another with --listen, or port 0 for a free one: %w", c.Listen, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	p.served = connlistener.New(ln)
	p.stack.Push("listener", func(context.Context) error {
		if err := p.served.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // the API server has already closed it, if it ran
	})
	_, port, err := net.SplitHostPort(ln.Addr().String())
	p.addr = net.JoinHostPort(c.host, port)
	return p.served, err
}

// keepCertificates renews them in a process that runs for months. The API server
// reads changed files automatically.
func (c *completed) keepCertificates(p *Plane, keys pki.Folder) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go recovery.Func(context.Background(), func() {
		defer close(ended)
		tick := time.NewTicker(24 * time.Hour)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				err := keys.Ensure(c.hosts, c.Kubelets...)
				if err == nil {
					err = writeKubeconfig(c.dir.Kubeconfig(), keys, "https://"+p.addr)
				}
				if err != nil {
					klog.ErrorS(err, "Renewing certificates of the management plane")
				}
			}
		}
	})()
	p.stack.Push("renewal of certificates", func(context.Context) error { cancel(); <-ended; return nil })
}

// Config returns a config for the API server as system:masters, inside the process
// and without a limit of requests.
func (p *Plane) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (p *Plane) Kubeconfig() string { return p.dir.Kubeconfig() }

// Addr is the host and port at which the API server answers.
func (p *Plane) Addr() string { return p.addr }

// Serve makes the API server answer on a connection that another listener accepted,
// as on one of its own address: with TLS, which the client starts. It takes over
// the connection, and closes it if the plane has stopped.
func (p *Plane) Serve(c net.Conn) { p.served.Serve(c) }

// KubeletFiles are the files of the kubelet of this plane: a certificate for
// Options.Kubelets and its key, the authority that signs client certificates, and
// the common name of the API server among those.
func (p *Plane) KubeletFiles() (cert, key, authority, client string) {
	keys := pki.Folder{Dir: p.dir.PKI()}
	return keys.Cert(pki.Kubelet), keys.Key(pki.Kubelet), keys.Cert("ca"), pki.KubeletClient
}

// MayAct returns lifecycle.ErrDeposed once this plane has led and another one may.
func (p *Plane) MayAct() error { return p.others.mayAct() }

// Err receives what ended the plane from within. The owner then calls Stop.
func (p *Plane) Err() <-chan error { return p.errs }

// Describe changes the description of the plane in the data directory, where other
// processes read its status.
func (p *Plane) Describe(change func(*datadir.Holder)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.holder)
	return p.lock.Describe(p.holder)
}

// Stop stops everything in reverse order. A second call returns the result of the
// first.
func (p *Plane) Stop(ctx context.Context) error {
	p.stop.Do(func() { p.stopErr = p.stack.Unwind(ctx) })
	return p.stopErr
}

// fail ends the plane. The reason stays in the data directory, where other
// processes read why nothing runs.
func (p *Plane) fail(err error) {
	err = p.explain(err)
	select {
	case p.errs <- err:
	default:
		return // the first reason is the one that matters
	}
	if err := p.Describe(func(h *datadir.Holder) { h.Problem = err.Error() }); err != nil {
		klog.ErrorS(err, "Recording why the management plane ends")
	}
}

// explain adds the remedy for a full disk, if that is the cause.
func (p *Plane) explain(err error) error {
	if _, done := errors.AsType[*fullDiskError](err); done || !diskspace.Full(err) {
		return err
	}
	return &fullDiskError{p.dir, err}
}

type fullDiskError struct {
	dir   datadir.Dir
	cause error
}

func (e *fullDiskError) Error() string {
	return fmt.Sprintf("disk of %s is full: make room, then start again with \"capstan up --data-dir %s\"; nothing acknowledged is lost: %v", e.dir, e.dir, e.cause)
}

func (e *fullDiskError) Unwrap() error { return e.cause }

// CatchExits prevents Kubernetes libraries from ending the process: the errors for
// which they would have ended it are sent to the channel, and only the goroutine
// that logged the error ends. It changes globals of klog: call it once, before
// Start, from the start of the program.
func CatchExits() <-chan error {
	omitStacks()
	fatal := make(chan error, 1)
	klog.OsExit = func(code int) {
		select {
		case fatal <- fmt.Errorf("a part of the API server gave up (exit code %d): the log has its reason; %s", code, caller()):
		default:
		}
		runtime.Goexit()
	}
	return fatal
}

// omitStacks prevents klog from writing the stacks of all goroutines, thousands of
// them, before it would end the process. klog omits them only after a first
// klog.Exit, which is called here without output.
func omitStacks() {
	klog.SetLogger(logr.Discard())
	defer klog.ClearLogger()
	klog.OsExit = func(int) { runtime.Goexit() }
	done := make(chan struct{})
	go recovery.Func(context.Background(), func() {
		defer close(done)
		klog.Exit()
	})()
	<-done
}

// caller returns the name of the innermost function of the stack that is not
// klog's.
func caller() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !more || !strings.HasPrefix(frame.Function, "k8s.io/klog") {
			return "it was " + frame.Function
		}
	}
}
