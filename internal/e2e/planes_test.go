// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// store is an etcd that requires certificates, and counts what was created in it.
type store struct {
	*testing.T
	keys   pki.Folder
	config *embed.Config
	etcd   *embed.Etcd
	flags  []string // by which the first plane uses it

	mu      sync.Mutex // guards created
	created int
}

// newStore runs it at the test's own end of the network.
func newStore(t *testing.T) *store {
	t.Helper()
	dir := t.TempDir()
	s := &store{T: t, keys: pki.Folder{Dir: filepath.Join(dir, "pki"), Now: time.Now}}
	if err := s.keys.Ensure([]string{network + "1"}); err != nil {
		t.Fatal(err)
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.ZapLoggerBuilder = filepath.Join(dir, "etcd"), embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: network + "1:2379"}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "peer.sock")}}
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = s.keys.Cert("apiserver"), s.keys.Key("apiserver")
	cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = s.keys.Cert("ca"), true
	cfg.EnableGRPCGateway = false // it would be a client without a certificate
	s.config = cfg
	s.start()
	t.Cleanup(s.stop)
	s.flags = []string{"--etcd-servers=https://" + network + "1:2379", "--etcd-cafile=" + s.keys.Cert("ca"), "--etcd-certfile=" + s.keys.Cert("admin"), "--etcd-keyfile=" + s.keys.Key("admin")}
	s.count()
	return s
}

func (s *store) start() {
	s.Helper()
	e, err := embed.StartEtcd(s.config)
	if err != nil {
		s.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	s.etcd = e
}

// stop stops it, unless it is stopped.
func (s *store) stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// count counts forever how many Machines were created. A watch of etcd continues
// after an outage of etcd.
func (s *store) count() {
	s.Helper()
	pair, err := tls.LoadX509KeyPair(s.keys.Cert("admin"), s.keys.Key("admin"))
	if err != nil {
		s.Fatal(err)
	}
	ca, err := os.ReadFile(s.keys.Cert("ca"))
	if err != nil {
		s.Fatal(err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AppendCertsFromPEM(ca)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + network + "1:2379"}, TLS: cfg, Logger: zap.NewNop()})
	if err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	s.Cleanup(func() { _ = c.Close(); <-ended }) // no calls use it any longer
	events := c.Watch(s.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithFilterDelete())
	go func() {
		defer close(ended)
		for res := range events {
			for _, e := range res.Events {
				s.note(e)
			}
		}
	}()
}

// note counts a Machine when it is created. An object that was created for a
// Machine which then was not created, because the plane was lost, has no Machine and
// is deleted again; see keeps.
func (s *store) note(e *clientv3.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path := strings.Split(string(e.Kv.Key), "/"); len(path) > 3 && path[3] == "machines" && e.IsCreate() {
		s.created++
	}
}

// has checks that so many Machines have been created, ever.
func (s *store) has(want int) {
	s.Helper()
	testenv.Eventually(s.T, func() error { // the watch may be behind
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.created < want {
			return fmt.Errorf("%d Machines were created, want %d", s.created, want)
		}
		if s.created > want {
			s.Errorf("%d Machines were created, want %d", s.created, want)
		}
		return nil
	})
}

// sharing is planes on hosts, with one store, that share a simulated cloud.
type sharing struct {
	*hosts
	store *store
	cloud string // the folder that it is kept in
}

// newSharing starts them one after the other, on hosts that start with a.
func newSharing(t *testing.T, more ...string) *sharing {
	t.Helper()
	s := &sharing{hosts: newHosts(t, append([]string{"a"}, more...)...), cloud: t.TempDir()}
	s.store = newStore(t)
	s.all["a"].up(append(s.store.flags, s.simulated())...)
	for _, name := range more {
		s.join(name)
	}
	return s
}

// join starts a plane by the file that the first one wrote.
func (s *sharing) join(name string) {
	s.Helper()
	s.all[name].up("--join="+filepath.Join(s.all["a"].dir, "join"), s.simulated())
}

func (s *sharing) simulated() string { return "--simulated-dir=" + s.cloud }

// at reaches the API server of a host.
func (s *sharing) at(name string) fleet {
	s.Helper()
	env, err := testenv.Connect(filepath.Join(s.all[name].dir, "kubeconfig"))
	s.must(err)
	env.Namespace = metav1.NamespaceDefault
	return fleet{s.T, env}
}

// sees waits until the plane of a host lists these, the leader first, those that
// were lost in parentheses. It returns since when the first of them leads.
func (s *sharing) sees(asked string, want ...string) (since time.Time) {
	s.Helper()
	c, err := kubernetes.NewForConfig(s.at(asked).Config)
	s.must(err)
	begun := time.Now()
	testenv.Eventually(s.T, func() error {
		b, err := c.RESTClient().Get().AbsPath("/capstan/members").DoRaw(s.Context())
		if err != nil {
			return err
		}
		var all []struct {
			Dir         string
			Leads, Gone bool
			LeadsSince  time.Time
		}
		if err := json.Unmarshal(b, &all); err != nil {
			return err
		}
		var got []string
		for i, m := range all {
			if name := filepath.Base(m.Dir); m.Gone {
				got = append(got, "("+name+")")
			} else {
				got = append(got, name)
			}
			if m.Leads != (i == 0) || m.Leads && m.LeadsSince.IsZero() {
				return fmt.Errorf("the %dth of %s", i, b)
			}
			if m.Leads {
				since = m.LeadsSince
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s sees %v, want %v", asked, got, want)
		}
		return nil
	})
	s.Logf("%s sees %v after %s", asked, want, time.Since(begun).Round(time.Millisecond))
	return since
}

// failover is how long there may be no leader after the loss of the leader.
const failover = 15 * time.Second

// moves loses the leader, waits until the plane of a host lists these, and checks
// that the first of them has become leader soon enough. What counts is the time
// that the new leader has put in the store, against the moment just before the
// loss: all hosts of the test have one clock, and when the test checks, which on a
// busy machine is late, does not count. It is still a wall time: make hosts runs
// apart.
func (s *sharing) moves(lose func(), asked string, want ...string) {
	s.Helper()
	before := time.Now()
	lose()
	took := s.sees(asked, want...).Sub(before)
	s.Logf("%s leads %s after the one before was lost", want[0], took.Round(time.Millisecond))
	if took <= 0 || took >= failover {
		s.Errorf("%s leads %s after the one before was lost, want less than %s", want[0], took, failover)
	}
}

// made checks that the simulated cloud, which all hosts share, has created so many
// machines for a cluster, ever: it counts them for their addresses, also those that
// are deleted. As all of these exist, none was created twice and none replaced.
func (s *sharing) made(name string, want int) {
	s.Helper()
	testenv.Eventually(s.T, func() error {
		records, err := filepath.Glob(filepath.Join(s.cloud, "*", "cluster.json"))
		if err != nil || len(records) != 1 {
			return fmt.Errorf("the cloud has the clusters %v, %w", records, err)
		}
		b, err := os.ReadFile(records[0])
		if err != nil {
			return err
		}
		text, _, _ := bytes.Cut(b, []byte("\n")) // a checksum follows
		var record struct {
			Name     string `json:"name"`
			Machines int    `json:"machines"`
		}
		if err := json.Unmarshal(text, &record); err != nil {
			return err
		}
		there, err := filepath.Glob(filepath.Join(filepath.Dir(records[0]), "machine-*.json"))
		if err != nil || record.Name != name || record.Machines < want {
			return fmt.Errorf("the cloud has made %d machines of %q, want %d of %s, %w", record.Machines, record.Name, want, name, err)
		}
		if record.Machines != want || len(there) != want {
			s.Errorf("the cloud has made %d machines, of which %d are there, want %d", record.Machines, len(there), want)
		}
		return nil
	})
}

// scale requests more workers, and waits until the first of them exists.
func (f fleet) scale(name string, workers, first int) {
	f.Helper()
	modify(f, name+"-workers", &clusterv1.MachineDeployment{}, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(workers)) })
	f.atLeast(name, first)
}

func (f fleet) atLeast(name string, machines int) {
	f.Helper()
	f.eventually(func() error {
		if have := len(f.uids(name, every)); have < machines {
			return fmt.Errorf("%d Machines, want %d", have, machines)
		}
		return nil
	})
}

// keeps checks that the earlier machines still exist after a cluster has reached
// its desired state.
func (f fleet) keeps(name string, before []string) {
	f.Helper()
	f.becomes(name)
	after := f.uids(name, every)
	for _, uid := range before {
		if !slices.Contains(after, uid) {
			f.Errorf("Machine %s was replaced; there are %v", uid, after)
		}
	}
	f.eventually(func() error { // what a killed plane has started is cleaned up
		var all infrav1.LocalMachineList
		if err := f.list(name, &all); err != nil || len(all.Items) != len(after) {
			return fmt.Errorf("%d LocalMachines for %d Machines, %w", len(all.Items), len(after), err)
		}
		return nil
	})
}

// TestPlanesOnThreeHostsLoseOneAfterTheOther creates and scales a cluster while the
// leader is killed, stopped for a while, and cut off: each time another one leads
// in less than 15 s and continues, and no machine is created twice or replaced.
func TestPlanesOnThreeHostsLoseOneAfterTheOther(t *testing.T) {
	testenv.OwnPlanes(t, 3)
	s := newSharing(t, "b", "c")
	s.sees("c", "a", "b", "c")
	c := s.at("c")
	c.create("prod", shape{controlPlane: 3, workers: 2})
	c.atLeast("prod", 2)
	before := c.uids("prod", every)
	s.moves(s.all["a"].kill, "c", "b", "c", "(a)")
	if out, err := s.all["c"].capstan(t.Context(), "status"); err != nil || !strings.Contains(out, s.all["b"].dir+", leads since ") || !strings.Contains(out, s.all["a"].dir+", gone\n") {
		t.Errorf("status at c: %v\n%s", err, out)
	}
	c.keeps("prod", before)
	s.store.has(5)
	s.made("prod", 5)
	s.join("a")
	s.sees("a", "b", "c", "a")

	t.Log("b is stopped for a while")
	c.scale("prod", 6, 6)
	before = c.uids("prod", every)
	s.moves(func() { s.all["b"].signal(syscall.SIGSTOP) }, "c", "c", "a", "(b)")
	s.all["b"].signal(syscall.SIGCONT)
	s.sees("a", "c", "a", "b")
	c.keeps("prod", before)
	s.store.has(9)
	s.made("prod", 9)

	t.Log("c is cut off")
	a := s.at("a")
	a.scale("prod", 9, 10)
	before = a.uids("prod", every)
	s.moves(func() { s.all["c"].connect(false) }, "a", "a", "b", "(c)")
	a.keeps("prod", before)
	s.all["c"].connect(true)
	s.sees("c", "a", "b", "c")
	a.keeps("prod", before)
	s.store.has(12)
	s.made("prod", 12)
	for name, h := range s.all {
		if !h.runs() {
			t.Errorf("plane %s has ended", name)
		}
	}
}

// TestPlanesOutliveTheirStore stops etcd for an instant, and for so long that the
// leader cannot be sure of its role.
func TestPlanesOutliveTheirStore(t *testing.T) {
	testenv.OwnPlanes(t, 3)
	s := newSharing(t, "b", "c")
	s.sees("c", "a", "b", "c")
	b := s.at("b")
	b.create("prod", shape{controlPlane: 3, workers: 2})
	b.atLeast("prod", 2)
	before := b.uids("prod", every)
	s.store.stop()
	s.store.start()
	b.keeps("prod", before)
	s.store.has(5)
	b.scale("prod", 6, 6)
	s.store.stop()
	testenv.Eventually(t, func() error {
		if !strings.Contains(s.all["a"].says(), "Starting the management plane again") {
			return fmt.Errorf("a leads yet")
		}
		return nil
	})
	s.store.start()
	b = s.at("b")
	b.keeps("prod", before)
	s.store.has(9)
	for name, h := range s.all {
		if !h.runs() {
			t.Errorf("plane %s has ended: %s", name, h.says())
		}
	}
}

// TestPlaneRestoresBackupOfSharedStore saves what two planes share, by the
// one that does not lead and while a cluster grows, and continues in a plane with
// an embedded store.
func TestPlaneRestoresBackupOfSharedStore(t *testing.T) {
	testenv.OwnPlanes(t, 3)
	s := newSharing(t, "b")
	b := s.at("b")
	b.create("prod", shape{controlPlane: 3, workers: 1})
	b.becomes("prod")
	before := b.uids("prod", every)
	b.scale("prod", 5, 5)
	file := filepath.Join(t.TempDir(), "backup")
	if out, err := s.all["b"].capstan(t.Context(), "backup", file); err != nil {
		t.Fatalf("backup: %v\n%s", err, out)
	}
	for _, h := range s.all {
		h.kill()
	}
	s.store.stop()
	s.all["a"].dir = filepath.Join(t.TempDir(), "restored")
	if out, err := s.all["a"].capstan(t.Context(), "restore", file); err != nil {
		t.Fatalf("restore: %v\n%s", err, out)
	}
	s.all["a"].up(s.simulated())
	restored := s.at("a")
	restored.keeps("prod", before)
	if have := len(restored.uids("prod", every)); have != 8 {
		t.Errorf("%d Machines, want 8", have)
	}
}
