// SPDX-License-Identifier: Apache-2.0

// Package kubelet serves the requests of the API server to the kubelet of a plane:
// logs of containers, commands in them, attaching to them, and connections to ports
// of Pods. Only the API server can use it. It is identified by its client
// certificate, and has already authorized its clients.
package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	// idleTimeout is how long a command or a forwarded port may be silent.
	idleTimeout = 4 * time.Hour
	// creationTimeout is the time limit for a client to open its streams.
	creationTimeout = 30 * time.Second
)

// Pods are the Pods of the node.
type Pods interface {
	// Log returns the log of the current run of a container, or of the previous one.
	Log(namespace, pod, container string, previous bool) (*podlogs.Log, error)
	// Exec runs a command in a container, and returns its exit code.
	Exec(ctx context.Context, namespace, pod, container string, c Command) (int, error)
	// Attach attaches a client to a running container; c has no Args.
	Attach(ctx context.Context, namespace, pod, container string, c Command) error
	// Dial connects to a port of a Pod.
	Dial(ctx context.Context, namespace, pod string, port int) (io.ReadWriteCloser, error)
}

// Command is a command to run in a container, with the streams of the client, of
// which any may be nil.
type Command struct {
	Args []string
	podlogs.Streams
}

// TLS returns a configuration with which a listener presents a certificate, and
// accepts only a client certificate that the authority signed with this common
// name.
func TLS(certificate func() (*tls.Certificate, error), authority *x509.CertPool, client string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		// Streams take over their connections, which is not possible in HTTP/2.
		NextProtos: []string{"http/1.1"},
		VerifyConnection: func(s tls.ConnectionState) error {
			if name := s.PeerCertificates[0].Subject.CommonName; name != client {
				return fmt.Errorf("client %q not allowed: only %q can use this kubelet", name, client)
			}
			return nil
		},
	}
}

// Handler serves requests for Pods.
func Handler(pods Pods) http.Handler {
	h := &handler{pods}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", h.logs)
	for _, method := range []string{http.MethodGet, http.MethodPost} { // the API server forwards the method of its client
		mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", h.exec)
		mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", h.attach)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", h.forward)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	return mux
}

type handler struct{ pods Pods }

func (h *handler) logs(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	o, err := logOptions(q, time.Now())
	if err != nil {
		refuse(w, err)
		return
	}
	log, err := h.pods.Log(req.PathValue("namespace"), req.PathValue("pod"), req.PathValue("container"), q.Get("previous") == "true")
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	flushing := &flushing{w, http.NewResponseController(w)}
	if o.Follow {
		_ = flushing.to.Flush() // a client that follows sees immediately that there is a log
	}
	_ = log.Read(req.Context(), o, flushing) // the client has disconnected, or sees the end
}

// refuse writes why a request is not served. The API server puts the whole text
// into an error, so it does not end with a newline.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, err.Error()) // or the client has disconnected
}

// flushing sends written data immediately.
type flushing struct {
	w  io.Writer
	to *http.ResponseController
}

// Write implements io.Writer.
func (f *flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.to.Flush()
	}
	return n, err
}

// logOptions reads PodLogOptions from the query.
func logOptions(q url.Values, now time.Time) (o podlogs.Options, err error) {
	o.Follow, o.Timestamps = q.Get("follow") == "true", q.Get("timestamps") == "true"
	number := func(name string) (*int64, error) {
		if q.Get(name) == "" {
			return nil, nil
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s=%s is not a number from 0 on", name, q.Get(name))
		}
		return &n, nil
	}
	if o.Tail, err = number("tailLines"); err != nil {
		return o, err
	}
	limit, err := number("limitBytes")
	if err != nil {
		return o, err
	}
	if limit != nil {
		o.Limit = *limit
	}
	seconds, err := number("sinceSeconds")
	if err != nil {
		return o, err
	}
	if seconds != nil {
		o.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" {
		if o.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return o, fmt.Errorf("sinceTime=%s is no time as 2006-01-02T15:04:05Z", text)
		}
	}
	switch s := q.Get("stream"); s {
	case "", "All":
	case "Stdout", "Stderr":
		o.Stream = map[string]string{"Stdout": "stdout", "Stderr": "stderr"}[s]
	default:
		return o, fmt.Errorf("stream=%s is none of All, Stdout and Stderr", s)
	}
	return o, nil
}

func (h *handler) exec(w http.ResponseWriter, req *http.Request) {
	options, err := remotecommand.NewOptions(req)
	if err != nil {
		refuse(w, err)
		return
	}
	run := &executor{h.pods, req.PathValue("namespace"), req.PathValue("pod")}
	remotecommand.ServeExec(w, req, run, run.pod, "", req.PathValue("container"), req.URL.Query()["command"], options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

func (h *handler) attach(w http.ResponseWriter, req *http.Request) {
	options, err := remotecommand.NewOptions(req)
	if err != nil {
		refuse(w, err)
		return
	}
	run := &executor{h.pods, req.PathValue("namespace"), req.PathValue("pod")}
	remotecommand.ServeAttach(w, req, run, run.pod, "", req.PathValue("container"), options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

// executor runs commands and attaches clients for the streaming library.
type executor struct {
	pods           Pods
	namespace, pod string
}

// ExecInContainer implements remotecommand.Executor.
func (e *executor) ExecInContainer(ctx context.Context, _, _, container string, args []string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	c := command(in, out, errs, tty, resize)
	c.Args = args
	code, err := e.pods.Exec(ctx, e.namespace, e.pod, container, c)
	if err == nil && code != 0 {
		err = exited(code)
	}
	return err
}

// AttachContainer implements remotecommand.Attacher.
func (e *executor) AttachContainer(ctx context.Context, _, _, container string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return e.pods.Attach(ctx, e.namespace, e.pod, container, command(in, out, errs, tty, resize))
}

// command returns the streams of a request, without those that were not requested.
func command(in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) Command {
	c := Command{Streams: podlogs.Streams{Stdin: in, TTY: tty, Resize: resize}}
	if out != nil {
		c.Stdout = out
	}
	if errs != nil {
		c.Stderr = errs
	}
	return c
}

// exited is the exit code of a command that did not return 0, as the library's
// error.
type exited int

func (e exited) String() string { return fmt.Sprintf("command terminated with exit code %d", int(e)) }

// Error implements error.
func (e exited) Error() string { return e.String() }

// Exited reports that the command exited.
func (e exited) Exited() bool { return true }

// ExitStatus returns the exit code.
func (e exited) ExitStatus() int { return int(e) }

func (h *handler) forward(w http.ResponseWriter, req *http.Request) {
	options, err := portforward.NewV4Options(req)
	if err != nil {
		refuse(w, err)
		return
	}
	f := &forwarder{h.pods, req.PathValue("namespace"), req.Context()}
	portforward.ServePortForward(w, req, f, req.PathValue("pod"), "", options, idleTimeout, creationTimeout, portforward.SupportedProtocols)
}

// forwarder forwards ports for the streaming library.
type forwarder struct {
	pods      Pods
	namespace string
	asking    context.Context // ends with the client; the library provides none
}

// PortForward implements portforward.PortForwarder.
func (f *forwarder) PortForward(_ context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := f.pods.Dial(f.asking, f.namespace, pod, int(port))
	if err != nil {
		return fmt.Errorf("forward port %d of Pod %s/%s: %w", port, f.namespace, pod, err)
	}
	// A Pod may keep a connection open forever after its client disconnected.
	defer context.AfterFunc(f.asking, recovery.Func(context.Background(), func() { _ = conn.Close() }))()
	sent := make(chan struct{})
	go recovery.Func(context.Background(), func() {
		defer close(sent)
		_, _ = io.Copy(conn, stream) // a Pod that accepts nothing more may still send data
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})()
	_, err = io.Copy(stream, conn)
	// The Pod has sent everything: what is still sent to it is discarded.
	err = errors.Join(err, stream.Close(), conn.Close())
	<-sent
	return err
}
