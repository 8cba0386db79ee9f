// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"github.com/capstan-dev/capstan/internal/host/podlogs"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// pods has one Pod, whose commands print their request, and whose port prints its
// input.
type pods struct{ logs *podlogs.Store }

func (p pods) Log(namespace, pod, container string, previous bool) (*podlogs.Log, error) {
	run := 1
	if previous {
		run = 0
	}
	if l := p.logs.Find(namespace+"_"+pod, container, run); l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("container %s of Pod %s/%s has no log", container, namespace, pod)
}

func (p pods) Exec(_ context.Context, namespace, pod, container string, c Command) (int, error) {
	if c.Args[0] == "false" {
		return 3, nil
	}
	if c.Args[0] == "broken" {
		return 0, errors.New("it has no such program")
	}
	_, _ = fmt.Fprintf(c.Stdout, "%s/%s/%s %v tty=%v ", namespace, pod, container, c.Args, c.TTY)
	if c.Stdin != nil {
		_, _ = io.Copy(c.Stdout, c.Stdin)
	}
	if c.Stderr != nil {
		_, _ = io.WriteString(c.Stderr, "oops")
	}
	return 0, nil
}

func (p pods) Attach(_ context.Context, namespace, pod, container string, c Command) error {
	if container == "gone" {
		return errors.New("it does not run")
	}
	_, _ = fmt.Fprintf(c.Stdout, "%s/%s/%s tty=%v ", namespace, pod, container, c.TTY)
	_, err := io.Copy(c.Stdout, c.Stdin)
	return err
}

func (p pods) Dial(_ context.Context, _, _ string, port int) (io.ReadWriteCloser, error) {
	if port != 80 {
		return nil, errors.New("refused")
	}
	near, far := net.Pipe()
	go func() {
		b := make([]byte, 5)
		_, _ = io.ReadFull(far, b)
		_, _ = far.Write(bytes.ToUpper(b))
		_ = far.Close()
	}()
	return near, nil
}

func serve(t *testing.T) *httptest.Server {
	t.Helper()
	logs, err := podlogs.Open(filepath.Join(t.TempDir(), "logs"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for run, text := range []string{"before\n", "one\ntwo\n"} {
		l, err := logs.Begin("ns_p", "a", run)
		if err != nil {
			t.Fatal(err)
		}
		l.Copy("stdout", strings.NewReader(text))
		if err := l.End(); err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewServer(Handler(pods{logs}))
	t.Cleanup(s.Close)
	return s
}

func TestLogsAreAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for query, want := range map[string]string{
		"ns/p/a":                                "200 one\ntwo\n",
		"ns/p/a?previous=true":                  "200 before\n",
		"ns/p/a?tailLines=1":                    "200 two\n",
		"ns/p/a?limitBytes=2":                   "200 on",
		"ns/p/a?follow=true":                    "200 one\ntwo\n",
		"ns/p/a?sinceSeconds=600":               "200 one\ntwo\n",
		"ns/p/a?sinceTime=2999-01-01T00:00:00Z": "200 ",
		"ns/p/a?stream=Stderr":                  "200 ",
		"ns/p/a?tailLines=x":                    "400 tailLines=x is not a number from 0 on",
		"ns/p/a?sinceTime=today":                "400 sinceTime=today is no time as 2006-01-02T15:04:05Z",
		"ns/p/a?stream=x":                       "400 stream=x is none of All, Stdout and Stderr",
		"ns/p/b":                                "400 container b of Pod ns/p has no log",
	} {
		answer, err := http.Get(s.URL + "/containerLogs/" + query)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if got := fmt.Sprintf("%d %s", answer.StatusCode, b); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestCommandsAreRun(t *testing.T) {
	t.Parallel()
	s := serve(t)
	at := func(query string) *url.URL {
		u, err := url.Parse(s.URL + "/exec/ns/p/a?" + query)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	config := &rest.Config{Host: s.URL}
	// The API server sends such requests, even for clients that use websockets.
	with := func(q string) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(config, http.MethodPost, at(q))
	}
	run, err := with("command=cat&command=-&input=1&output=1&error=1")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if err := run.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ns/p/a [cat -] tty=false hello", "oops"}, []string{out.String(), errs.String()}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if run, err = with("command=false&output=1"); err != nil {
		t.Fatal(err)
	}
	var code exec.CodeExitError
	if err := run.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); !errors.As(err, &code) || code.Code != 3 {
		t.Errorf("it ended with %v, want code 3", err)
	}
	if run, err = with("command=broken&output=1"); err != nil {
		t.Fatal(err)
	}
	if err := run.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err == nil || !strings.Contains(err.Error(), "it has no such program") {
		t.Errorf("it ended with %v", err)
	}
}

func TestClientsAreAttached(t *testing.T) {
	t.Parallel()
	s := serve(t)
	attach := func(container string) (string, error) {
		u, err := url.Parse(s.URL + "/attach/ns/p/" + container + "?input=1&output=1")
		if err != nil {
			t.Fatal(err)
		}
		run, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: s.URL}, http.MethodPost, u)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = run.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out})
		return out.String(), err
	}
	if out, err := attach("a"); err != nil || out != "ns/p/a tty=false hello" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := attach("gone"); err == nil || !strings.Contains(err.Error(), "it does not run") {
		t.Errorf("it ended with %v", err)
	}
}

func TestPortsAreForwarded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	u, err := url.Parse(s.URL + "/portForward/ns/p")
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u), []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); err != nil || string(b) != "HELLO" {
		t.Errorf("%q, %v", b, err)
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotHadIsSaid(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for path, want := range map[string]int{"/attach/ns/p/a": http.StatusBadRequest, "/exec/ns/p/a?command=x": http.StatusBadRequest, "/pods": http.StatusNotFound, "/healthz": http.StatusOK} {
		answer, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, answer.StatusCode, want)
		}
	}
}

func TestTheAPIServerAloneIsLetIn(t *testing.T) {
	t.Parallel()
	authority := x509.NewCertPool()
	ca, strangers := newAuthority(t), newAuthority(t)
	leaf, err := certs.ParseCertificate(ca.Cert)
	if err != nil {
		t.Fatal(err)
	}
	authority.AddCert(leaf)
	server := issue(t, ca, certs.Leaf{CommonName: "plane", DNSNames: []string{"plane"}, Server: true})
	s := httptest.NewUnstartedServer(Handler(pods{}))
	s.TLS = TLS(func() (*tls.Certificate, error) { return &server, nil }, authority, "apiserver")
	s.StartTLS()
	t.Cleanup(s.Close)
	own := issue(t, ca, certs.Leaf{CommonName: "apiserver", Client: true})
	user := issue(t, ca, certs.Leaf{CommonName: "a client", Client: true})
	stranger := issue(t, strangers, certs.Leaf{CommonName: "apiserver", Client: true})
	for name, tc := range map[string]struct {
		shows []tls.Certificate
		in    bool
	}{
		"the API server":                  {[]tls.Certificate{own}, true},
		"another client":                  {[]tls.Certificate{user}, false},
		"unknown":                         {nil, false},
		"the name of another authority's": {[]tls.Certificate{stranger}, false},
	} {
		c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, ServerName: "plane", Certificates: tc.shows}}}
		answer, err := c.Get(s.URL + "/healthz")
		if err == nil {
			_ = answer.Body.Close()
		}
		if (err == nil) != tc.in {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func newAuthority(t *testing.T) certs.Pair {
	t.Helper()
	ca, err := certs.NewCA(certs.Algorithm("ECDSA-P256"), "ca", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca certs.Pair, l certs.Leaf) tls.Certificate {
	t.Helper()
	l.Algorithm, l.Now = certs.Algorithm("ECDSA-P256"), time.Now()
	pair, err := ca.Issue(l)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
