// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/loopback"
)

// through is a configuration that reaches the API server of one machine.
func (l *lab) through(node string) *rest.Config {
	cfg := l.config()
	way := rest.CopyConfig(cfg)
	cfg.ServerName = node
	cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return podforward.Open(ctx, way, "kube-apiserver-"+node, loopback.Port)
	}
	return cfg
}

// nodesThrough lists the Nodes of an API server.
func nodesThrough(t *testing.T, cfg *rest.Config) (int, error) {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	return len(nodes.Items), err
}

func TestTheAPIServerOfAMachineAnswersThroughItsPod(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	machines := l.controlPlane(3)
	for _, m := range machines {
		if n, err := nodesThrough(t, l.through(m.Name)); err != nil || n != 3 {
			t.Errorf("through %s: got %d Nodes, %v, want 3", m.Name, n, err)
		}
	}
	one := l.through("cp-1")
	c, err := kubernetes.NewForConfig(one)
	if err != nil {
		t.Fatal(err)
	}
	list := func() error {
		_, err := c.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); err != nil {
		t.Error(err)
	}
	l.ensure(fault(machines[0], infrav1.MachineFaultPoweredOff))
	if err := list(); err == nil {
		t.Error("a connection to a machine without power answers")
	}
	if _, err := nodesThrough(t, one); err == nil {
		t.Error("a machine without power takes connections")
	}
	hung := l.through("cp-2")
	hung.Timeout = 200 * time.Millisecond
	l.ensure(fault(machines[1], infrav1.MachineFaultAPIServerHangs))
	if _, err := nodesThrough(t, hung); err == nil || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("got %v, want no answer of one that hangs", err)
	}
	if n, err := nodesThrough(t, l.through("cp-3")); err != nil || n != 3 {
		t.Errorf("through cp-3: got %d Nodes, %v, want 3", n, err)
	}
}

func TestEachMachineHasACertificateForAYear(t *testing.T) {
	t.Parallel()
	const later = 4 * time.Minute // a certificate is valid five minutes before its creation, because clients use another clock
	clock := testclock.NewFakeClock(time.Now().Truncate(time.Second))
	l := newLabWith(t, clock)
	shown := func(node string) *x509.Certificate {
		t.Helper()
		conn, err := podforward.Open(t.Context(), l.config(), "kube-apiserver-"+node, loopback.Port)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		link := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}) // inspected, not trusted
		if err := link.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return link.ConnectionState().PeerCertificates[0]
	}
	m := l.controlPlane(1)[0]
	first := shown("cp-1")
	if want := clock.Now().Add(certs.LeafValidity); !first.NotAfter.Equal(want) || first.VerifyHostname("cp-1") != nil || first.VerifyHostname(l.endpoint.Host) != nil {
		t.Errorf("ends %s, want %s, for %v and %v", first.NotAfter, want, first.DNSNames, first.IPAddresses)
	}
	ends, err := podforward.ServingCertExpiry(t.Context(), podforward.Target{Cluster: "ns/prod", Config: l.config(), CA: l.pki[certs.CA].Cert, Node: "cp-1", Port: loopback.Port})
	if err != nil || !ends.Equal(first.NotAfter) {
		t.Errorf("the control plane's controller finds %s, %v, want %s", ends, err, first.NotAfter)
	}
	clock.Step(later)
	if again := shown("cp-1"); !again.Equal(first) {
		t.Error("it shows another one later")
	}
	l.token("abcdeg", nil)
	l.mustRun("cp-2", l.joinData(l.pkiFiles(), func(j *bootstrapv1.JoinConfiguration) {
		j.ControlPlane = &bootstrapv1.JoinControlPlane{}
		j.Discovery.BootstrapToken.Token = "abcdeg." + goodRest
	}))
	if got, want := shown("cp-2").NotAfter, first.NotAfter.Add(later); !got.Equal(want) {
		t.Errorf("that of a newer machine ends %s, want %s", got, want)
	}
	l.restart()
	l.ensure(m)
	if !shown("cp-1").Equal(first) {
		t.Error("after a restart it shows another one")
	}
	m.Version = "v1.36.4"
	l.ensure(m)
	if got, want := shown("cp-1").NotAfter, first.NotAfter.Add(later); !got.Equal(want) {
		t.Errorf("after an upgrade in place it ends %s, want %s", got, want)
	}
}

func TestTheAddressShowsOneCertificateAndKeepsItsKeyToItself(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	shown := func() *x509.Certificate {
		t.Helper()
		conn, err := tls.Dial("tcp", l.server(), &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}) // inspected, not trusted
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0]
	}
	l.controlPlane(1)
	first := shown()
	l.restart()
	if !shown().Equal(first) {
		t.Error("after a restart it shows another one")
	}
	info, err := os.Stat(filepath.Join(l.dir, string(l.cluster.UID), clusterFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: mode %v, %v", clusterFile, info.Mode(), err)
	}
}

func TestOnlyThePortOfTheAPIServerAnswers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	l.mustRun("cp-2", l.joinData(l.pkiFiles(), func(j *bootstrapv1.JoinConfiguration) {
		j.ControlPlane = &bootstrapv1.JoinControlPlane{LocalAPIEndpoint: bootstrapv1.APIEndpoint{BindPort: 7443}}
	}))
	for at, answers := range map[string]bool{
		"kube-apiserver-cp-1 6443": true, "kube-apiserver-cp-1 7443": false, "kube-apiserver-cp-2 7443": true, "kube-apiserver-cp-2 6443": false,
		"kube-scheduler-cp-1 6443": false, "etcd-cp-1 6443": false,
	} {
		var pod string
		var port int
		if _, err := fmt.Sscan(at, &pod, &port); err != nil {
			t.Fatal(err)
		}
		conn, err := podforward.Open(t.Context(), l.config(), pod, port)
		if err == nil {
			err = tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}).HandshakeContext(t.Context()) // reads which server answers, not whether to trust it
			_ = conn.Close()
		}
		if answers != (err == nil) {
			t.Errorf("%s: got %v", at, err)
		}
	}
}

func TestAdministratorOfAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	l, other := newLab(t), &lab{t: t, clock: nil, pki: map[certs.Purpose]certs.Pair{}}
	l.controlPlane(1)
	pair, err := certs.New(certs.CA, "", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	other.pki[certs.CA], other.endpoint = pair, l.endpoint
	if _, err := nodesThrough(t, other.config()); err == nil || !strings.Contains(err.Error(), "signed by unknown authority") {
		t.Errorf("got %v, want its certificate refused", err)
	}
	blind := other.config()
	blind.Insecure, blind.CAData = true, nil
	if _, err := nodesThrough(t, blind); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v at the cluster's address, want Unauthorized", err)
	}
	blind.Dial = l.through("cp-1").Dial
	if _, err := nodesThrough(t, blind); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v at a machine of the cluster, want Unauthorized", err)
	}
	if _, err := podforward.Open(t.Context(), other.config(), "kube-apiserver-cp-1", loopback.Port); err == nil {
		t.Error("it forwards ports")
	}
}

func TestForwarderSurvivesGarbage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	dials := map[string]func() (net.Conn, error){
		"the cluster's address": func() (net.Conn, error) { return net.Dial("tcp", l.server()) },
		"the API server's Pod": func() (net.Conn, error) {
			return podforward.Open(t.Context(), l.config(), "kube-apiserver-cp-1", loopback.Port)
		},
		"the Pod of a member": func() (net.Conn, error) { return podforward.Open(t.Context(), l.config(), "etcd-cp-1", 2379) },
		"a closed port":       func() (net.Conn, error) { return podforward.Open(t.Context(), l.config(), "etcd-cp-1", 80) },
	}
	for at, dial := range dials {
		for what, garbage := range map[string]string{
			"bytes":         strings.Repeat("\x00\xff\x16garbage", 1000),
			"plain HTTP":    "GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n",
			"half a hello":  "\x16\x03\x01\x02\x00\x01\x00",
			"a long record": "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16),
		} {
			conn, err := dial()
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			_, _ = io.WriteString(conn, garbage) // it may be cut off in the middle
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
				answer, err := io.ReadAll(io.LimitReader(conn, 1<<20))
				if strings.Contains(string(answer), "NodeList") || err == nil && len(answer) > 1000 {
					t.Errorf("%s: got %q, %v of %s", at, answer, err, what)
				}
			}
			if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", at, err)
			}
		}
	}
	if n, err := nodesThrough(t, l.config()); err != nil || n != 1 {
		t.Errorf("got %d Nodes, %v afterwards", n, err)
	}
	if n, err := nodesThrough(t, l.through("cp-1")); err != nil || n != 1 {
		t.Errorf("got %d Nodes, %v afterwards through the Pod", n, err)
	}
	if _, err := l.members("cp-1"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
