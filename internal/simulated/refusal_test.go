// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// without leaves files out.
func without(files []bootstrapv1.File, paths ...string) []bootstrapv1.File {
	return slices.DeleteFunc(slices.Clone(files), func(f bootstrapv1.File) bool { return slices.Contains(paths, f.Path) })
}

// with replaces the content of a file.
func with(files []bootstrapv1.File, path string, content []byte) []bootstrapv1.File {
	return append(without(files, path), bootstrapv1.File{Path: path, Content: string(content)})
}

// slug converts a sentence to the name of a machine.
func slug(sentence string) string {
	return "m-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(sentence))
}

const pkiDir = "/etc/kubernetes/pki/"

func TestInitIsRefusedAsKubeadmRefusesIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	expired, err := certs.New(certs.Etcd, "", time.Now().Add(-48*time.Hour), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	files := l.pkiFiles()
	tests := map[string]struct {
		data []byte
		want string
	}{
		"no CA":                   {l.initDataWith(without(files, pkiDir+"ca.crt", pkiDir+"ca.key"), l.server()), "phase certs/ca: /etc/kubernetes/pki/ca.crt: no such file or directory"},
		"no key of the CA":        {l.initDataWith(without(files, pkiDir+"ca.key"), l.server()), "/etc/kubernetes/pki/ca.key: no such file or directory"},
		"no etcd CA":              {l.initDataWith(without(files, pkiDir+"etcd/ca.crt"), l.server()), "phase certs/etcd-ca: /etc/kubernetes/pki/etcd/ca.crt: no such file"},
		"no front proxy CA":       {l.initDataWith(without(files, pkiDir+"front-proxy-ca.key"), l.server()), "phase certs/front-proxy-ca"},
		"no service account keys": {l.initDataWith(without(files, pkiDir+"sa.key"), l.server()), "phase certs/sa: /etc/kubernetes/pki/sa.key"},
		"another CA's key":        {l.initDataWith(with(files, pkiDir+"ca.key", l.pki[certs.Etcd].Key), l.server()), "ca.key: the key does not belong to the certificate"},
		"rubbish for a CA":        {l.initDataWith(with(files, pkiDir+"ca.crt", []byte("rubbish")), l.server()), "ca.crt: it holds no PEM block"},
		"an expired CA": {l.initDataWith(with(with(files, pkiDir+"etcd/ca.crt", expired.Cert), pkiDir+"etcd/ca.key", expired.Key), l.server()),
			"etcd/ca.crt: the certificate has expired on"},
		"another cluster's endpoint": {l.initDataWith(files, "127.99.99.99:6443"), "controlPlaneEndpoint is 127.99.99.99:6443, where no API server of this cluster answers"},
		"no endpoint":                {l.initDataWith(files, ""), "controlPlaneEndpoint is not set"},
		"no cloud-config":            {[]byte("#!/bin/sh\nkubeadm init"), "cloud-init passes it over"},
		"no kubeadm":                 {[]byte("#cloud-config\nruncmd: [ls]\n"), "neither kubeadm init nor kubeadm join"},
		"no configuration file":      {[]byte("#cloud-config\nruncmd:\n- kubeadm init --config /x\n"), "open /x: no such file or directory"},
		"no configuration":           {[]byte("#cloud-config\nruncmd:\n- kubeadm init\n"), "without --config"},
		"a configuration to join":    {[]byte(strings.Replace(string(l.workerData()), "kubeadm join", "kubeadm init", 1)), "holds a JoinConfiguration"},
		"a name that is none": {l.userData(files, "init", []byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {name: Not_A_Name}\n"), nil),
			`nodeRegistration.name: Invalid value: "Not_A_Name"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := l.ensure(l.machine(slug(name), tc.data))
			if s.Stage != Failed || !s.Running || !strings.Contains(s.Message, tc.want) {
				t.Errorf("got %+v, want it to have failed with %q", s, tc.want)
			}
			if strings.Contains(s.Message, "PRIVATE KEY") {
				t.Error("the message holds a key")
			}
		})
	}
	// None of them has spoilt the cluster.
	l.mustRun("cp-1", l.initData())
	if s := l.ensure(l.machine("cp-2", l.initData())); s.Stage != Failed || !strings.Contains(s.Message, "has a control plane already, of machine cp-1") {
		t.Errorf("got a second init at %+v, want it refused", s)
	}
}

func TestJoinIsRefusedAsKubeadmRefusesIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	stranger, err := certs.New(certs.CA, "", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	pins, err := certs.PinHashes(stranger.Cert)
	if err != nil {
		t.Fatal(err)
	}
	l.token("expird", func(d map[string][]byte) { d["expiration"] = []byte("2020-01-01T00:00:00Z") })
	l.token("nosign", func(d map[string][]byte) { delete(d, "usage-bootstrap-signing") })
	l.token("noauth", func(d map[string][]byte) { delete(d, "usage-bootstrap-authentication") })
	l.token("nogrps", func(d map[string][]byte) { delete(d, "auth-extra-groups") })
	token := func(text string) func(*bootstrapv1.JoinConfiguration) {
		return func(j *bootstrapv1.JoinConfiguration) { j.Discovery.BootstrapToken.Token = text }
	}
	asControlPlane := func(j *bootstrapv1.JoinConfiguration) { j.ControlPlane = &bootstrapv1.JoinControlPlane{} }
	tests := map[string]struct {
		data []byte
		want string
	}{
		"an unknown token":     {l.joinData(nil, token("zzzzzz."+goodRest)), `token id "zzzzzz" is invalid for this cluster or it has expired: there is no Secret`},
		"a wrong secret":       {l.joinData(nil, token(goodID+".aaaaaaaaaaaaaaaa")), "failed to verify JWS signature"},
		"an expired token":     {l.joinData(nil, token("expird."+goodRest)), "it expired on 2020-01-01T00:00:00Z"},
		"a token not to sign":  {l.joinData(nil, token("nosign."+goodRest)), "usage-bootstrap-signing"},
		"a token not to enter": {l.joinData(nil, token("noauth."+goodRest)), "usage-bootstrap-authentication"},
		"a token of no group":  {l.joinData(nil, token("nogrps."+goodRest)), `configmaps "kubeadm-config" is forbidden: User "system:bootstrap:nogrps"`},
		"rubbish for a token":  {l.joinData(nil, token("rubbish")), "is not of the form"},
		"another CA's hash":    {l.joinData(nil, func(j *bootstrapv1.JoinConfiguration) { j.Discovery.BootstrapToken.CACertHashes = pins }), "are pinned"},
		"no hash": {l.joinData(nil, func(j *bootstrapv1.JoinConfiguration) { j.Discovery.BootstrapToken.CACertHashes = nil }),
			"using token-based discovery without caCertHashes can be unsafe"},
		"another cluster's endpoint": {l.joinData(nil, func(j *bootstrapv1.JoinConfiguration) {
			j.Discovery.BootstrapToken.APIServerEndpoint = "127.99.99.99:6443"
		}),
			`no API server of this cluster answers at "127.99.99.99:6443"`},
		"a control plane without keys": {l.joinData(nil, asControlPlane), "failure loading certificate for CA: /etc/kubernetes/pki/ca.crt: no such file"},
		"a control plane with another CA": {l.joinData(with(with(l.pkiFiles(), pkiDir+"ca.crt", stranger.Cert), pkiDir+"ca.key", stranger.Key), asControlPlane),
			"the CA of the machine is not that of the cluster"},
		"the name of a Node that is ready": {l.joinData(nil, func(j *bootstrapv1.JoinConfiguration) { j.NodeRegistration.Name = "cp-1" }),
			`a Node with name "cp-1" and status "Ready" already exists`},
		"a configuration to init": {[]byte(strings.Replace(string(l.initData()), "kubeadm init", "kubeadm join", 1)), "no JoinConfiguration in"},
		"a file that is not there": {l.joinData(nil, func(j *bootstrapv1.JoinConfiguration) {
			j.Discovery = bootstrapv1.Discovery{File: bootstrapv1.FileDiscovery{KubeConfigPath: "/etc/kubernetes/discovery.conf"}}
		}), `failed to load the discovery file "/etc/kubernetes/discovery.conf"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := slug(name)
			s := l.ensure(l.machine(node, tc.data))
			if s.Stage != Failed || !strings.Contains(s.Message, tc.want) {
				t.Errorf("got %+v, want it to have failed with %q", s, tc.want)
			}
			if strings.Contains(s.Message, goodRest) || strings.Contains(s.Message, "PRIVATE KEY") {
				t.Errorf("the message holds a secret: %s", s.Message)
			}
			if _, err := l.client().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("got %v for the Node of a machine that was refused, want it not found", err)
			}
		})
	}
}

func TestJoinMayTrustWithoutAHashOrByAFile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	l.mustRun("w-1", l.joinData(nil, func(j *bootstrapv1.JoinConfiguration) {
		j.Discovery.BootstrapToken.CACertHashes = nil
		j.Discovery.BootstrapToken.UnsafeSkipCAVerification = new(true)
	}))
	const path = "/etc/kubernetes/discovery.conf"
	config := func(ca []byte) bootstrapv1.File {
		text, err := clientcmd.Write(clientcmdapi.Config{
			Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://" + l.server(), CertificateAuthorityData: ca}},
			Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
			CurrentContext: "c",
		})
		if err != nil {
			t.Fatal(err)
		}
		return bootstrapv1.File{Path: path, Content: string(text)}
	}
	byFile := func(j *bootstrapv1.JoinConfiguration) {
		j.Discovery = bootstrapv1.Discovery{File: bootstrapv1.FileDiscovery{KubeConfigPath: path}, TLSBootstrapToken: goodID + "." + goodRest}
	}
	l.mustRun("w-2", l.joinData([]bootstrapv1.File{config(l.pki[certs.CA].Cert)}, byFile))
	s := l.ensure(l.machine("w-3", l.joinData([]bootstrapv1.File{config(l.pki[certs.Etcd].Cert)}, byFile)))
	if s.Stage != Failed || !strings.Contains(s.Message, "certificate signed by unknown authority") {
		t.Errorf("got %+v, want a file with another CA refused", s)
	}
}
