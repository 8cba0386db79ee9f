// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

func TestPortsAreForwarded(t *testing.T) {
	t.Parallel()
	forward := func(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
		if port != 2379 {
			return fmt.Errorf("nothing listens on %s/%s:%d", namespace, pod, port)
		}
		return echo(ctx, namespace, pod, port, stream)
	}
	c := start(t, func(o *apiserver.Options) { o.PortForward = forward })
	if err := c.Store().Add(pod("etcd", nil)); err != nil {
		t.Fatal(err)
	}
	dialers := map[string]func(*testing.T, *rest.Config, string) httpstream.Dialer{
		"over SPDY": func(t *testing.T, cfg *rest.Config, pod string) httpstream.Dialer {
			transport, upgrader, err := spdy.RoundTripperFor(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, forwardURL(t, cfg, pod))
		},
		"over a websocket": func(t *testing.T, cfg *rest.Config, pod string) httpstream.Dialer {
			d, err := portforward.NewSPDYOverWebsocketDialer(forwardURL(t, cfg, pod), cfg)
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
	}
	for name, dialer := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _, err := dialer(t, c.admin(t), "etcd").Dial("portforward.k8s.io")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }() // the end of the test
			data, failure := streams(t, conn, "2379", "1")
			if _, err := io.WriteString(data, "hello"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 5)
			if _, err := io.ReadFull(data, got); err != nil || string(got) != "hello" {
				t.Errorf("echo %q, error %v", got, err)
			}
			if err := data.Close(); err != nil {
				t.Error(err)
			}
			if text, err := io.ReadAll(failure); err != nil || len(text) > 0 {
				t.Errorf("failure %q, error %v, want none", text, err)
			}
			_, failure = streams(t, conn, "1", "2")
			if text, _ := io.ReadAll(failure); !strings.Contains(string(text), "nothing listens on default/etcd:1") {
				t.Errorf("failure %q", text)
			}
			if _, _, err := dialer(t, c.admin(t), "absent").Dial("portforward.k8s.io"); err == nil {
				t.Error("a pod that is not there was dialled")
			}
			waiting, h := 0, http.Header{}
			h.Set(corev1.PortHeader, "2379")
			h.Set(corev1.StreamType, corev1.StreamTypeError)
			for ; waiting < 600 && err == nil; waiting++ {
				h.Set(corev1.PortForwardRequestIDHeader, fmt.Sprint("waiting-", waiting))
				_, err = conn.CreateStream(h)
			}
			if err == nil {
				t.Error("any number of streams can wait for others")
			}
		})
	}
}

// streams opens one connection to a port.
func streams(t *testing.T, conn httpstream.Connection, port, id string) (data, failure httpstream.Stream) {
	t.Helper()
	h := http.Header{}
	h.Set(corev1.PortHeader, port)
	h.Set(corev1.PortForwardRequestIDHeader, id)
	h.Set(corev1.StreamType, corev1.StreamTypeError)
	failure, err := conn.CreateStream(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := failure.Close(); err != nil {
		t.Fatal(err)
	}
	h.Set(corev1.StreamType, corev1.StreamTypeData)
	if data, err = conn.CreateStream(h); err != nil {
		t.Fatal(err)
	}
	return data, failure
}

func TestAHangingServerAnswersWhenItIsReleased(t *testing.T) {
	t.Parallel()
	var fault atomic.Int32
	c := start(t, func(o *apiserver.Options) { o.Answer = func() apiserver.Fault { return apiserver.Fault(fault.Load()) } })
	cfg := c.admin(t)
	next := watching(t, cfg, "/api/v1/nodes?watch=true", "application/json")
	fault.Store(int32(apiserver.Hang))
	c.Recheck()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	nodes := clientset(t, cfg).CoreV1().Nodes()
	if _, err := nodes.List(ctx, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that the client gave up", err)
	}
	if err := c.Store().Add(node("n")); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { _, err := nodes.List(t.Context(), metav1.ListOptions{}); answered <- err }()
	fault.Store(int32(apiserver.None))
	c.Recheck()
	if err := <-answered; err != nil {
		t.Errorf("after its release: %v", err)
	}
	if ev := next(); ev.String() != "ADDED n" {
		t.Errorf("the watch sees %q after the release", ev)
	}
}

func TestARefusingServerClosesConnections(t *testing.T) {
	t.Parallel()
	var fault atomic.Int32
	c := start(t, func(o *apiserver.Options) { o.Answer = func() apiserver.Fault { return apiserver.Fault(fault.Load()) } })
	cfg := c.admin(t)
	next := watching(t, cfg, "/api/v1/nodes?watch=true", "application/json")
	fault.Store(int32(apiserver.Refuse))
	c.Recheck()
	if ev := next(); ev.Type != "END" {
		t.Errorf("the watch continues: %v", ev)
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := hc.Get(cfg.Host + "/readyz"); err == nil { // it fails immediately
		_ = resp.Body.Close()
		t.Errorf("answered %s, want no connection", resp.Status)
	}
	fault.Store(int32(apiserver.None))
	if got := answers(t, cfg, "/readyz"); got != http.StatusOK {
		t.Errorf("afterwards it answers %d", got)
	}
}

func TestAServerComesBackWithItsObjectsAndAddress(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	log := testr.NewWithInterface(t, testr.Options{})
	open := func() *apiserver.Server {
		s, err := apiserver.New(apiserver.Options{
			Name: "c", Version: func() string { return "v1.34.2" }, Clock: clock.RealClock{}, Log: log, Journal: store.FileAt(path, log),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := open()
	n := node("n")
	if err := first.Store().Add(n); err != nil {
		t.Fatal(err)
	}
	gone := node("gone")
	if err := first.Store().Add(gone); err != nil {
		t.Fatal(err)
	}
	if err := first.Store().Remove(nodesGVR, "", "gone"); err != nil {
		t.Fatal(err)
	}
	version := first.Store().Entries().Version()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"version":99,"resource":"nod`); err != nil { // killed while it wrote
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	second := open()
	if got := second.Store().Entries().Version(); got != version {
		t.Errorf("version %d, want %d: a start must write nothing", got, version)
	}
	again := node("n")
	if err := second.Store().Load(again); err != nil || again.UID != n.UID || again.ResourceVersion != n.ResourceVersion {
		t.Errorf("node %+v, error %v, want %+v", again.ObjectMeta, err, n.ObjectMeta)
	}
	if err := second.Store().Load(gone); !apierrors.IsNotFound(err) {
		t.Errorf("the deleted node: %v, want not found", err)
	}
	if err := second.Store().Add(node("more")); err != nil {
		t.Fatal(err)
	}
	if err := open().Store().Load(node("more")); err != nil {
		t.Errorf("what was written after the damage: %v", err)
	}
}

func TestEachClusterHasItsOwnAddress(t *testing.T) {
	t.Parallel()
	log := testr.NewWithInterface(t, testr.Options{})
	listeners := apiserver.NewListeners(log)
	s, err := apiserver.New(apiserver.Options{Name: "c", Version: func() string { return "v1.34.2" }, Clock: clock.RealClock{}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	one, err := listeners.Open(netip.MustParseAddrPort("127.0.0.1:0"), s)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" { // the others have one address of loopback
		beside := netip.AddrPortFrom(netip.MustParseAddr("127.64.0.1"), one.Port())
		if two, err := listeners.Open(beside, s); err != nil || two != beside {
			t.Errorf("address %s, error %v, want %s: the same port of another", two, err, beside)
		}
	}
	if _, err := listeners.Open(one, s); err == nil {
		t.Error("an address was given twice")
	}
	listeners.Shut(one)
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", one.String()); err == nil {
		t.Error("an address that was shut still answers")
	}
	if again, err := listeners.Open(one, s); err != nil || again != one {
		t.Errorf("address %s, error %v, want %s again", again, err, one)
	}
	if err := listeners.Close(); err != nil {
		t.Error(err)
	}
}

func forwardURL(t *testing.T, cfg *rest.Config, pod string) *url.URL {
	t.Helper()
	u, err := url.Parse(cfg.Host + "/api/v1/namespaces/default/pods/" + pod + "/portforward")
	if err != nil {
		t.Fatal(err)
	}
	return u
}
