// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

const (
	endpoint = "10.0.0.1:6443"
	token    = "abcdef.0123456789abcdef"
)

func authority(t *testing.T, purpose certs.Purpose) certs.Pair {
	t.Helper()
	pair, err := certs.New(purpose, certs.ECDSAP256, now, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// cluster is one with a token that machines can join with.
func cluster(t *testing.T, ca certs.Pair, change func(s *corev1.Secret)) Cluster {
	t.Helper()
	s, err := objects.Open(objects.Options{Clock: testclock.NewFakePassiveClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-signing": []byte("true"),
			"usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte("x, " + nodeTokens), "expiration": []byte(now.Add(time.Hour).Format(time.RFC3339)),
		},
	}
	config := configMap("kubeadm-config", map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: c\n"})
	change(secret)
	for _, obj := range []objects.Object{secret, config} {
		if err := s.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	return Cluster{Endpoint: endpoint, CA: ca.Cert, Objects: s, Now: now}
}

func unchanged(*corev1.Secret) {}

// joins reads a join by a token, with more fields of it.
func joins(t *testing.T, fields string) *Run {
	t.Helper()
	return run(t, "join", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken: {"+fields+"}\n")
}

// wantError checks for a part of an error; empty means none.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!")):
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

func TestDiscoverChecksTheToken(t *testing.T) {
	t.Parallel()
	ca := authority(t, certs.CA)
	data := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	tests := map[string]struct {
		secret func(*corev1.Secret)
		token  string
		want   string
	}{
		"a token of the cluster":     {unchanged, token, ""},
		"without expiration":         {func(s *corev1.Secret) { delete(s.Data, "expiration") }, token, ""},
		"of another form":            {unchanged, "hunter2", "the bootstrap token is not of the form"},
		"of another ID":              {unchanged, "ffffff.0123456789abcdef", `token id "ffffff" is invalid for this cluster or it has expired: there is no Secret kube-system/bootstrap-token-ffffff`},
		"with another secret":        {unchanged, "abcdef.ffffffffffffffff", `the secret part of token id "abcdef" is not the cluster's`},
		"of a Secret with other IDs": {data("token-id", "other"), token, "failed to verify JWS signature"},
		"that has expired":           {data("expiration", now.Format(time.RFC3339)), token, "it expired on 2026-01-02T03:04:05Z"},
		"that expires some day":      {data("expiration", "some day"), token, "has an expiration that is not a time"},
		"not for signing":            {data("usage-bootstrap-signing", "false"), token, "is not for signing"},
		"not for authentication":     {data("usage-bootstrap-authentication", ""), token, "is not for authentication"},
		"of another group":           {data("auth-extra-groups", "system:bootstrappers:x"), token, `User "system:bootstrap:abcdef" cannot get resource "configmaps"`},
		"of another type":            {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, token, `has the type "Opaque", not "bootstrap.kubernetes.io/token"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, err := joins(t, "apiServerEndpoint: "+endpoint+", unsafeSkipCAVerification: true, token: "+tc.token).Discover(cluster(t, ca, tc.secret))
			wantError(t, err, tc.want)
			if err == nil && docs.Data.ClusterName != "c" {
				t.Errorf("got %+v, want the configuration of the cluster", docs)
			}
			if err != nil && (strings.Contains(err.Error(), "0123456789abcdef") || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

func TestDiscoverChecksTheCluster(t *testing.T) {
	t.Parallel()
	ca := authority(t, certs.CA)
	pins, err := certs.PinHashes(ca.Cert)
	if err != nil {
		t.Fatal(err)
	}
	const by = "token: " + token + ", apiServerEndpoint: "
	ready := func(status corev1.ConditionStatus) func(*testing.T, Cluster) {
		return func(t *testing.T, c Cluster) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
			if err := c.Objects.Add(n); err != nil {
				t.Error(err)
			}
		}
	}
	configured := func(text string) func(*testing.T, Cluster) {
		return func(t *testing.T, c Cluster) {
			if err := c.Objects.Ensure(configMap("kubeadm-config", map[string]string{"ClusterConfiguration": text})); err != nil {
				t.Error(err)
			}
		}
	}
	tests := map[string]struct {
		fields string
		change func(*testing.T, Cluster)
		want   string
	}{
		"by its pin":                   {by + endpoint + ", caCertHashes: ['" + pins[0] + "']", nil, ""},
		"by one of two, in upper case": {by + endpoint + ", caCertHashes: ['sha256:00', '" + strings.ToUpper(pins[0]) + "']", nil, ""},
		"by another pin":               {by + endpoint + ", caCertHashes: ['sha256:00']", nil, "cluster CA found in cluster-info ConfigMap is invalid: none of the public keys"},
		"by no pin":                    {by + endpoint, nil, "using token-based discovery without caCertHashes can be unsafe"},
		"without a port":               {by + "10.0.0.1, unsafeSkipCAVerification: true", nil, ""},
		"at another address":           {by + "10.0.0.2:6443, unsafeSkipCAVerification: true", nil, `no API server of this cluster answers at "10.0.0.2:6443": it is reached at ` + endpoint},
		"with a Node that is away":     {by + endpoint + ", unsafeSkipCAVerification: true", ready(corev1.ConditionUnknown), ""},
		"with a Node that is ready":    {by + endpoint + ", unsafeSkipCAVerification: true", ready(corev1.ConditionTrue), `a Node with name "host-1" and status "Ready" already exists in the cluster`},
		"without its configuration": {by + endpoint + ", unsafeSkipCAVerification: true", func(t *testing.T, c Cluster) {
			if err := c.Objects.Remove(corev1.SchemeGroupVersion.WithResource("configmaps"), metav1.NamespaceSystem, "kubeadm-config"); err != nil {
				t.Error(err)
			}
		}, `unable to fetch the kubeadm-config ConfigMap: configmaps "kubeadm-config" not found`},
		"with an empty one":     {by + endpoint + ", unsafeSkipCAVerification: true", configured(""), "its ClusterConfiguration cannot be read: the kubeadm config has no document"},
		"with one of a machine": {by + endpoint + ", unsafeSkipCAVerification: true", configured("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"), "its ClusterConfiguration cannot be read: there is none"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster(t, ca, unchanged)
			if tc.change != nil {
				tc.change(t, c)
			}
			_, err := joins(t, tc.fields).Discover(c)
			wantError(t, err, tc.want)
		})
	}
}

func TestDiscoverReadsAFile(t *testing.T) {
	t.Parallel()
	ca, other := authority(t, certs.CA), authority(t, certs.CA)
	kubeconfig := func(server string, ca []byte, user string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: '" + server +
			"', certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca) + "}}]\nusers: [{name: u, user: {" + user + "}}]\n"
	}
	tests := map[string]struct {
		file, path, fields string
		want               string
		endpoint           string
	}{
		"with a token":                  {kubeconfig("https://"+endpoint, ca.Cert, "token: "+token), "/d.conf", "", "", endpoint},
		"with a token of its own":       {kubeconfig("https://"+endpoint, ca.Cert, ""), "/d.conf", "tlsBootstrapToken: " + token, "", endpoint},
		"with a certificate":            {kubeconfig("https://"+endpoint, ca.Cert, "client-certificate-data: eA=="), "/d.conf", "", "", endpoint},
		"with a file of a certificate":  {kubeconfig("https://"+endpoint, ca.Cert, "client-certificate: /k.yaml"), "/d.conf", "", "", endpoint},
		"without any":                   {kubeconfig("https://"+endpoint, ca.Cert, ""), "/d.conf", "", "the bootstrap token is not of the form", endpoint},
		"of another authority":          {kubeconfig("https://"+endpoint, other.Cert, "token: "+token), "/d.conf", "", "the authority in the discovery file is not the cluster's", endpoint},
		"of another address":            {kubeconfig("https://10.0.0.2:6443", ca.Cert, "token: "+token), "/d.conf", "", `no API server of this cluster answers at "10.0.0.2:6443"`, "10.0.0.2:6443"},
		"that is not there":             {"", "/absent.conf", "", "open /absent.conf: no such file or directory", ""},
		"that is none":                  {"SECRET", "/d.conf", "", "it is not a kubeconfig", ""},
		"that is too deep":              {strings.Repeat("[", 20_000), "/d.conf", "", "failed to load the discovery file", ""},
		"without a current context":     {"apiVersion: v1\nkind: Config\n", "/d.conf", "", "has no current context with a cluster", ""},
		"whose context has no cluster":  {"apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n", "/d.conf", "", "has no current context with a cluster", ""},
		"whose authority is in a file":  {strings.Replace(kubeconfig("https://"+endpoint, nil, "token: "+token), "certificate-authority-data: ", "certificate-authority: /ca.crt", 1), "/d.conf", "", "", endpoint},
		"whose authority is not a file": {strings.Replace(kubeconfig("https://"+endpoint, nil, "token: "+token), "certificate-authority-data: ", "certificate-authority: /none", 1), "/d.conf", "", "is not the cluster's", endpoint},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, "join", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  file: {kubeConfigPath: "+tc.path+"}\n  "+tc.fields+"\n")
			r.files["/d.conf"], r.files["/ca.crt"] = []byte(tc.file), ca.Cert
			if got := r.JoinEndpoint(); got != tc.endpoint {
				t.Errorf("it joins at %q, want %q", got, tc.endpoint)
			}
			_, err := r.Discover(cluster(t, ca, unchanged))
			wantError(t, err, tc.want)
			if err != nil && strings.Contains(err.Error(), "SECRET") {
				t.Errorf("the error repeats the file: %v", err)
			}
		})
	}
	if got := joins(t, "token: a, apiServerEndpoint: "+endpoint).JoinEndpoint(); got != endpoint {
		t.Errorf("by a token it joins at %q", got)
	}
	if got := run(t, "init", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n").JoinEndpoint(); got != "" {
		t.Errorf("an init joins at %q", got)
	}
}
