// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/mgmtplane"
)

// store runs the etcd of a data directory, and nothing else of a plane.
func store(t *testing.T, dir datadir.Dir) (c *clientv3.Client, socket string, stop func()) {
	t.Helper()
	sockets, err := os.MkdirTemp("", "backup-") // a test's own folder has too long a path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	name, peer, cluster := mgmtplane.EtcdMember()
	advertised, err := url.Parse(peer)
	if err != nil {
		t.Fatal(err)
	}
	cfg := embed.NewConfig()
	cfg.Dir, cfg.Name, cfg.InitialCluster, cfg.ZapLoggerBuilder = dir.Etcd(), name, cluster, embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{*advertised}, []url.URL{*advertised}
	socket = filepath.Join(sockets, "client")
	cfg.ListenClientUrls, cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Path: socket}}, []url.URL{{Scheme: "unix", Host: filepath.Join(sockets, "peer")}}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	c, err = clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	return c, socket, func() { _ = c.Close(); e.Close() } // at its end
}

func TestWhatIsSavedIsRestored(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	if err := os.Chmod(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	keys := pki.Folder{Dir: dir.PKI(), Now: time.Now}
	if err := keys.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	c, socket, stop := store(t, dir)
	put, err := c.Put(t.Context(), "/registry/kept", "value")
	if err != nil {
		t.Fatal(err)
	}
	secret, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	save := func(how string, recipients ...age.Recipient) {
		t.Helper()
		files[how] = filepath.Join(t.TempDir(), "backup")
		if r, err := Save(t.Context(), dir, files[how], recipients...); err != nil || r.Bytes == 0 {
			t.Fatalf("save %s: %+v, %v", how, r, err)
		}
		if info, err := os.Stat(files[how]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", how, info.Mode(), err)
		}
	}
	lock, err := datadir.Acquire(dir, datadir.Holder{PID: os.Getpid(), EtcdSocket: socket})
	if err != nil {
		t.Fatal(err)
	}
	save("of one that runs", secret.Recipient())
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	stop()
	save("of one that has stopped")
	if _, err := Save(t.Context(), dir, files["of one that runs"]); err == nil || !strings.Contains(err.Error(), "is there already: choose another name") {
		t.Errorf("a file is replaced: %v", err)
	}
	for how, file := range files {
		restored(t, how, file, keys, put.Header.Revision, secret)
	}
}

// restored requires the keys, the value, and revisions far beyond the earlier ones.
func restored(t *testing.T, how, file string, keys pki.Folder, revision int64, secret age.Identity) {
	t.Helper()
	dir := datadir.Dir(filepath.Join(t.TempDir(), "new"))
	var identities []age.Identity
	if secret != nil {
		identities = append(identities, secret)
	}
	if _, err := Restore(file, dir, true, identities...); err != nil {
		t.Errorf("%s: a dry run: %v", how, err)
	}
	if _, err := os.Stat(string(dir)); err == nil {
		t.Errorf("%s: a dry run leaves something", how)
	}
	if _, err := Restore(file, dir, false, identities...); err != nil {
		t.Fatalf("%s: %v", how, err)
	}
	if _, err := Restore(file, dir, false, identities...); err == nil || !strings.Contains(err.Error(), "is not empty, and a backup replaces nothing") {
		t.Errorf("%s: restored twice: %v", how, err)
	}
	want, err := keys.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (pki.Folder{Dir: dir.PKI()}).Fingerprint(); err != nil || got != want {
		t.Errorf("%s: other keys, %v", how, err)
	}
	c, _, stop := store(t, dir)
	defer stop()
	got, err := c.Get(t.Context(), "/registry/kept")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "value" {
		t.Fatalf("%s: %v, %v", how, got, err)
	}
	if got.Header.Revision < revision+revisionBump {
		t.Errorf("%s: revision %d after %d", how, got.Header.Revision, revision)
	}
	if res := <-c.Watch(t.Context(), "/registry/kept", clientv3.WithRev(revision)); res.CompactRevision == 0 {
		t.Errorf("%s: a watch of the lost store continues: %+v", how, res)
	}
}
