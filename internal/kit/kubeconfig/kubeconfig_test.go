// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func admin(t *testing.T) []byte {
	t.Helper()
	ca, err := certs.New(certs.CA, "", now, 0)
	if err != nil {
		t.Fatal(err)
	}
	data, err := New(Options{Cluster: "demo", Server: "https://127.64.0.1:6443", CA: ca, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAdminKubeconfigIsForSystemMasters(t *testing.T) {
	t.Parallel()
	data := admin(t)
	cfg, err := RESTConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := certs.ParseCertificate(cfg.CertData)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Host != "https://127.64.0.1:6443" || len(cert.Subject.Organization) != 1 || cert.Subject.Organization[0] != "system:masters" {
		t.Errorf("host %s, subject %s", cfg.Host, cert.Subject)
	}
	if !bytes.Contains(data, []byte("current-context: demo-admin@demo\n")) || !bytes.Contains(data, []byte("name: demo-admin\n")) {
		t.Error("the context or the user has another name")
	}
}

func TestRenewAtIsHalfOfTheLife(t *testing.T) {
	t.Parallel()
	at, ok, err := RenewAt(admin(t))
	want := now.Add(certs.LeafValidity / 2)
	if err != nil || !ok || at.Sub(want).Abs() > 5*time.Minute {
		t.Errorf("renew at %s, %v, %v; want about %s", at, ok, err, want)
	}
}

func TestSecretHasTheContractsShape(t *testing.T) {
	t.Parallel()
	s := Secret(types.NamespacedName{Namespace: "ns", Name: "demo"}, []byte("x"), &metav1.OwnerReference{Name: "o"})
	if s.Name != "demo-kubeconfig" || s.Namespace != "ns" || s.Type != "cluster.x-k8s.io/secret" ||
		s.Labels["cluster.x-k8s.io/cluster-name"] != "demo" || string(s.Data["value"]) != "x" || len(s.OwnerReferences) != 1 {
		t.Errorf("secret %+v", s)
	}
}

func TestRefusedKubeconfigs(t *testing.T) {
	t.Parallel()
	const around = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: CLUSTER}]
users: [{name: u, user: USER}]
`
	with := func(cluster, user string) string {
		return strings.NewReplacer("CLUSTER", cluster, "USER", user).Replace(around)
	}
	const good = "{server: 'https://x:1'}"
	tests := map[string]struct{ data, want string }{
		"a token is fine":           {with(good, "{token: hunter2}"), ""},
		"nothing":                   {"", "it is missing or empty"},
		"rubbish":                   {"hunter2: [", "it is not a kubeconfig"},
		"another kind":              {`{"apiVersion":"v1","kind":"Pod"}`, "it is not a kubeconfig"},
		"no context":                {"apiVersion: v1\nkind: Config\n", "current-context does not exist"},
		"an exec plugin":            {with(good, "{exec: {apiVersion: client.authentication.k8s.io/v1, command: hunter2}}"), "has an exec plugin"},
		"an auth provider":          {with(good, "{auth-provider: {name: hunter2}}"), "has an auth provider"},
		"a token in a file":         {with(good, "{tokenFile: /etc/hunter2}"), "refers to a file"},
		"a certificate in a file":   {with(good, "{client-certificate: /etc/hunter2}"), "refers to a file"},
		"a key in a file":           {with(good, "{client-key: /etc/hunter2}"), "refers to a file"},
		"an authority in a file":    {with("{server: 'https://x:1', certificate-authority: /etc/hunter2}", "{}"), "refers to a file"},
		"a socket as server":        {with("{server: 'unix:///run/hunter2'}", "{}"), "its server is not an http or https URL"},
		"a name without its object": {strings.Replace(with(good, "{}"), "cluster: k,", "cluster: hunter2,", 1), "the cluster of its current context"},
		"aliases of a long text":    {with(good, "{}") + "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 1000) + "]", "aliases that make too much"},
		"far too large":             {strings.Repeat("x", maxSize+1), "it is larger than 256 KiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-kubeconfig"}, Data: map[string][]byte{"value": []byte(tc.data)}}
			_, err := FromSecret(s)
			if tc.want == "" {
				if err != nil {
					t.Errorf("error %v", err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), `secret ns/demo-kubeconfig, key "value": `) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error quotes the data: %v", err)
			}
		})
	}
}

func TestCurrentIsAllThatIsHandedOut(t *testing.T) {
	t.Parallel()
	got, err := Current([]byte(`apiVersion: v1
kind: Config
current-context: c
preferences: {colors: true, extensions: [{name: hunter2, extension: {}}]}
extensions: [{name: hunter2, extension: {command: hunter2}}]
contexts: [{name: evil, context: {cluster: hunter2, user: evil}}, {name: c, context: {cluster: k, user: u, namespace: apps, extensions: [{name: hunter2, extension: {}}]}}]
clusters: [{name: hunter2, cluster: {server: 'https://evil:1', certificate-authority: /etc/hunter2}}, {name: k, cluster: {server: 'https://x:1', extensions: [{name: hunter2, extension: {}}]}}]
users: [{name: evil, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: hunter2}}}, {name: u, user: {token: abc, extensions: [{name: hunter2, extension: {}}]}}]
`))
	want := `apiVersion: v1
clusters:
- cluster:
    server: https://x:1
  name: k
contexts:
- context:
    cluster: k
    namespace: apps
    user: u
  name: c
current-context: c
kind: Config
users:
- name: u
  user:
    token: abc
`
	if err != nil || string(got) != want {
		t.Errorf("got %v\n%s", err, got)
	}
	if _, err := Current([]byte("rubbish: [")); err == nil {
		t.Error("rubbish is handed out")
	}
	mine := admin(t)
	if again, err := Current(mine); err != nil || !bytes.Equal(again, mine) {
		t.Errorf("ours is handed out as another: %v\n%s", err, again)
	}
}

func TestNewNeedsTheAuthoritysKey(t *testing.T) {
	t.Parallel()
	ca, err := certs.New(certs.CA, "", now, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Cluster: "demo", Server: "https://x:6443", CA: certs.Pair{Cert: ca.Cert}, Now: now}); err == nil || !strings.Contains(err.Error(), "key of the certificate authority is not known") {
		t.Errorf("error %v", err)
	}
}

func FuzzRESTConfig(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Config\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = RESTConfig(data)
		_, _, _ = RenewAt(data)
	})
}
