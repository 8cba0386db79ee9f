// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig creates the admin kubeconfig of a workload cluster, and reads
// kubeconfigs that other users may have written.
//
// A kubeconfig from a Secret is input from a tenant: one that would run a
// program or read a file of ours is refused. No error quotes its content.
package kubeconfig

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// DataKey is the key of the kubeconfig in the Secret.
const DataKey = "value"

// maxSize bounds what is parsed; ours have about 4 KiB.
const maxSize = 256 << 10

// Options describe an admin kubeconfig.
type Options struct {
	Cluster   string          // the name of the Cluster
	Server    string          // the URL of its API server
	CA        certs.Pair      // its authority, with the key
	Algorithm certs.Algorithm // of the client key
	Now       time.Time
	Validity  time.Duration // zero means a year
}

// New creates a kubeconfig for an administrator: user <cluster>-admin, with a
// client certificate of the group system:masters.
func New(o Options) ([]byte, error) {
	if err := checkServer(o.Server); err != nil {
		return nil, err
	}
	client, err := o.CA.Issue(certs.Leaf{
		CommonName: "kubernetes-admin", Organization: []string{"system:masters"},
		Client: true, Algorithm: o.Algorithm, Now: o.Now, Validity: o.Validity,
	})
	if err != nil {
		return nil, fmt.Errorf("issue the client certificate: %w", err)
	}
	user := o.Cluster + "-admin"
	context := user + "@" + o.Cluster
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{o.Cluster: {Server: o.Server, CertificateAuthorityData: o.CA.Cert}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificateData: client.Cert, ClientKeyData: client.Key}},
		Contexts:       map[string]*clientcmdapi.Context{context: {Cluster: o.Cluster, AuthInfo: user}},
		CurrentContext: context,
	})
}

// Current returns the current context of a kubeconfig with its cluster and user,
// and of these only what is required to connect: nothing else in it is copied.
func Current(data []byte) ([]byte, error) {
	cfg, _, err := parse(data)
	if err != nil {
		return nil, err
	}
	return clientcmd.Write(*cfg)
}

// RESTConfig reads a kubeconfig that another user may have written.
func RESTConfig(data []byte) (*rest.Config, error) {
	cfg, _, err := parse(data)
	if err != nil {
		return nil, err
	}
	out, err := clientcmd.NewDefaultClientConfig(*cfg, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errors.New("its current context gives no usable client configuration")
	}
	return out, nil
}

// RenewAt is when half of the validity of a kubeconfig's client certificate has
// passed. It returns false where there is no client certificate to renew.
func RenewAt(data []byte) (_ time.Time, ok bool, err error) {
	_, user, err := parse(data)
	if err != nil || len(user.ClientCertificateData) == 0 {
		return time.Time{}, false, err
	}
	cert, err := certs.ParseCertificate(user.ClientCertificateData)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("its client certificate: %w", err)
	}
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) / 2), true, nil
}

// Secret is the Secret in which a cluster's kubeconfig is kept.
func Secret(cluster types.NamespacedName, data []byte, owner *metav1.OwnerReference) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace,
			Name:      certs.SecretName(cluster.Name, certs.Kubeconfig),
			Labels:    map[string]string{certs.ClusterNameLabel: cluster.Name},
		},
		Type: certs.SecretType,
		Data: map[string][]byte{DataKey: data},
	}
	if owner != nil {
		s.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return s
}

// FromSecret is RESTConfig of a Secret's kubeconfig. The error names the
// Secret, its key, what is wrong and what to do.
func FromSecret(s *corev1.Secret) (*rest.Config, error) {
	cfg, err := RESTConfig(s.Data[DataKey])
	if err != nil {
		return nil, InSecret(s, err)
	}
	return cfg, nil
}

// InSecret adds to err that it is about the kubeconfig in a Secret, and the remedy.
func InSecret(s *corev1.Secret, err error) error {
	return fmt.Errorf("secret %s/%s, key %q: %w; put a kubeconfig with inline certificates or a token there, or delete the Secret if its control plane can make it again",
		s.Namespace, s.Name, DataKey, err)
}

// parse returns what of the whole the current context needs, and its user.
func parse(data []byte) (*clientcmdapi.Config, *clientcmdapi.AuthInfo, error) {
	switch {
	case len(data) == 0:
		return nil, nil, errors.New("it is missing or empty")
	case len(data) > maxSize:
		return nil, nil, fmt.Errorf("it is larger than %d KiB", maxSize>>10)
	}
	if err := sanitize.CheckYAML(data); err != nil {
		return nil, nil, fmt.Errorf("it is %w", err)
	}
	cfg, err := clientcmd.Load(data)
	if err != nil {
		return nil, nil, errors.New("it is not a kubeconfig") // the decoder's error may quote the data
	}
	current, ok := cfg.Contexts[cfg.CurrentContext]
	if !ok || current == nil {
		return nil, nil, errors.New("its current-context does not exist in it")
	}
	cluster, ok := cfg.Clusters[current.Cluster]
	if !ok || cluster == nil {
		return nil, nil, errors.New("the cluster of its current context does not exist in it")
	}
	user, ok := cfg.AuthInfos[current.AuthInfo]
	if !ok || user == nil {
		return nil, nil, errors.New("the user of its current context does not exist in it")
	}
	if err := refuse(cluster, user); err != nil {
		return nil, nil, err
	}
	cluster, user = needed(cluster, user)
	return &clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{current.Cluster: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{current.AuthInfo: user},
		Contexts:       map[string]*clientcmdapi.Context{cfg.CurrentContext: {Cluster: current.Cluster, AuthInfo: current.AuthInfo, Namespace: current.Namespace}},
		CurrentContext: cfg.CurrentContext,
	}, user, nil
}

// needed keeps the fields that are known, inline and useful; anything else that a
// kubeconfig can contain, now or in the future, is dropped.
func needed(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {
	return &clientcmdapi.Cluster{
			Server:                   cluster.Server,
			TLSServerName:            cluster.TLSServerName,
			InsecureSkipTLSVerify:    cluster.InsecureSkipTLSVerify,
			CertificateAuthorityData: cluster.CertificateAuthorityData,
			ProxyURL:                 cluster.ProxyURL,
			DisableCompression:       cluster.DisableCompression,
		}, &clientcmdapi.AuthInfo{
			ClientCertificateData: user.ClientCertificateData,
			ClientKeyData:         user.ClientKeyData,
			Token:                 user.Token,
			Impersonate:           user.Impersonate,
			ImpersonateUID:        user.ImpersonateUID,
			ImpersonateGroups:     user.ImpersonateGroups,
			ImpersonateUserExtra:  user.ImpersonateUserExtra,
			Username:              user.Username,
			Password:              user.Password,
		}
}

// refuse names what a tenant's kubeconfig must not do in our process.
func refuse(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	if err := checkServer(cluster.Server); err != nil {
		return err
	}
	switch {
	case user.Exec != nil:
		return errors.New("its user has an exec plugin, which is not allowed")
	case user.AuthProvider != nil:
		return errors.New("its user has an auth provider, which is not allowed")
	case user.TokenFile != "", user.ClientCertificate != "", user.ClientKey != "", cluster.CertificateAuthority != "":
		return errors.New("it refers to a file, which is not allowed")
	}
	return nil
}

func checkServer(server string) error {
	u, err := url.Parse(server)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return errors.New("its server is not an http or https URL")
	}
	return nil
}
