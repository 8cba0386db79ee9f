// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// The etcd of one plane is the external one of another: they do not see each
// other's objects, because their prefixes differ.
func TestPlanesShareAnEtcdByPrefix(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 2)
	owner, guest := t.TempDir(), t.TempDir()
	startOn(t, owner)
	put(t, owner, "of-the-owner")
	flags := []string{"--etcd-servers=unix://" + filepath.Join(owner, "run", "etcd.sock"), "--etcd-prefix=/guest"}
	p := startOn(t, guest, flags...)
	err := connect(t, guest).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "of-the-owner"}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want not found", err)
	}
	put(t, guest, "of-the-guest")
	// Those of the guest went through its API server, those of the owner did not.
	if diff := cmp.Diff(definitions(t, guest), definitions(t, owner)); diff != "" {
		t.Errorf("definitions in a new etcd differ from what an API server makes of them (-API server +new):\n%s", diff)
	}
	p.Kill()
	startOn(t, guest, flags...)
	kept(t, guest, "of-the-guest")
	if entries, err := os.ReadDir(filepath.Join(guest, "etcd")); err == nil {
		t.Errorf("the guest has an etcd of its own: %v", entries)
	}
}

// definitions are the CustomResourceDefinitions by their names, without what
// differs from one creation to the next.
func definitions(t *testing.T, dir string) map[string]map[string]any {
	t.Helper()
	var list unstructured.UnstructuredList
	list.SetAPIVersion("apiextensions.k8s.io/v1")
	list.SetKind("CustomResourceDefinitionList")
	if err := connect(t, dir).List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		t.Fatal("there are no definitions")
	}
	all := map[string]map[string]any{}
	for _, crd := range list.Items {
		if created := crd.GetCreationTimestamp(); crd.GetUID() == "" || time.Since(created.Time).Abs() > time.Hour {
			t.Errorf("%s has UID %q and was created at %s", crd.GetName(), crd.GetUID(), created)
		}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
			unstructured.RemoveNestedField(crd.Object, "metadata", field)
		}
		conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range conditions {
			delete(c.(map[string]any), "lastTransitionTime")
		}
		crd.Object["status"].(map[string]any)["conditions"] = conditions
		all[crd.GetName()] = crd.Object
	}
	return all
}

func TestAnExternalEtcdIsReachedByTLS(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	// Any certificates do; those of a plane are at hand.
	keys := pki.Folder{Dir: filepath.Join(dir, "pki"), Now: time.Now}
	if err := keys.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	server := startEtcd(t, dir, keys)
	good := []string{"--etcd-servers=" + server, "--etcd-cafile=" + keys.Cert("ca"), "--etcd-certfile=" + keys.Cert("admin"), "--etcd-keyfile=" + keys.Key("admin")}
	data := filepath.Join(dir, "data")
	startOn(t, data, good...)
	put(t, data, "by-tls")
	kept(t, data, "by-tls")

	got := startFails(t, filepath.Join(dir, "other"), "--etcd-servers="+server, "--etcd-cafile="+keys.Cert("front-proxy-ca"))
	if want := "reach etcd at " + server + ": tls: failed to verify certificate"; !strings.Contains(got, want) {
		t.Errorf("error %q, want one with %q", got, want)
	}
}

// startEtcd runs an etcd that requires certificates from its clients.
func startEtcd(t *testing.T, dir string, keys pki.Folder) string {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.EnableGRPCGateway = false // a client without a certificate, which reconnects for ever
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "peer.sock")}}
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = keys.Cert("apiserver"), keys.Key("apiserver")
	cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = keys.Cert("ca"), true
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return "https://" + e.Clients[0].Addr().String()
}
