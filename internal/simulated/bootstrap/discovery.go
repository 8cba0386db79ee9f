// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

// Cluster is what a machine that joins finds at the other end.
type Cluster struct {
	Endpoint string // host:port
	CA       []byte // PEM
	Objects  *objects.Store
	Now      time.Time
}

const (
	discoveryPhase = "kubeadm join: error execution phase preflight: couldn't validate the identity of the API Server: "
	configPhase    = "kubeadm join: error execution phase preflight: unable to fetch the kubeadm-config ConfigMap: "
	// nodeTokens is the group that kubeadm allows to read its ConfigMaps and to
	// request kubelet certificates.
	nodeTokens = "system:bootstrappers:kubeadm:default-node-token"
)

// JoinEndpoint is where kubeadm join expects the cluster; empty for an init, or if
// the configuration has none.
func (r *Run) JoinEndpoint() string {
	if r.docs.Join == nil {
		return ""
	}
	d := r.docs.Join.Discovery
	if d.File.KubeConfigPath == "" {
		return d.BootstrapToken.APIServerEndpoint
	}
	if f, err := r.discoveryFile(); err == nil {
		return f.server
	}
	return ""
}

// Discover does what kubeadm join does before it changes anything: find the
// cluster, verify that it is the right one, prove that it may join, and read the
// cluster's configuration.
func (r *Run) Discover(c Cluster) (*kubeadm.Documents, error) {
	if err := r.trust(c); err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"}}
	if err := c.Objects.Load(cm); err != nil {
		return nil, fmt.Errorf(configPhase+"%w", err)
	}
	docs, err := kubeadm.Parse([]byte(cm.Data["ClusterConfiguration"]))
	if err != nil || docs.Cluster == nil {
		return nil, fmt.Errorf(configPhase+"its ClusterConfiguration cannot be read: %w", cmp.Or(err, errors.New("there is none")))
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.NodeName()}}
	err = c.Objects.Load(node)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("kubeadm join: error execution phase kubelet-start: cannot get Node %q: %w", r.NodeName(), err)
	}
	if err == nil && isReady(node) {
		return nil, fmt.Errorf("kubeadm join: error execution phase kubelet-start: a Node with name %q and status %q already exists in the cluster. "+
			"You must delete the existing Node or change the name of this new joining Node", r.NodeName(), corev1.NodeReady)
	}
	return docs, nil
}

// trust is discovery by token or by file, and the authentication of the machine.
func (r *Run) trust(c Cluster) error {
	d := r.docs.Join.Discovery
	if d.File.KubeConfigPath != "" {
		f, err := r.discoveryFile()
		if err != nil {
			return err
		}
		if err := f.check(c); err != nil {
			return err
		}
		token := d.TLSBootstrapToken
		if token == "" {
			token = f.token
		}
		if token == "" && f.certificate {
			return nil
		}
		return c.mayJoin(token)
	}
	t := d.BootstrapToken
	if !SameEndpoint(t.APIServerEndpoint, c.Endpoint) {
		return fmt.Errorf(discoveryPhase+"no API server of this cluster answers at %q: it is reached at %s", t.APIServerEndpoint, c.Endpoint)
	}
	if err := c.signs(t.Token); err != nil {
		return err
	}
	if err := c.pinned(t.CACertHashes, t.UnsafeSkipCAVerification != nil && *t.UnsafeSkipCAVerification); err != nil {
		return err
	}
	if d.TLSBootstrapToken != "" {
		return c.mayJoin(d.TLSBootstrapToken)
	}
	return c.mayJoin(t.Token)
}

// pinned compares the cluster's authority with the hashes a machine was given.
func (c Cluster) pinned(hashes []string, skip bool) error {
	if len(hashes) == 0 {
		if skip {
			return nil
		}
		return errors.New("kubeadm join: discovery.bootstrapToken.caCertHashes: Invalid value: \"\": using token-based discovery without caCertHashes can be unsafe. " +
			"Set unsafeSkipCAVerification as true in your kubeadm config file to continue")
	}
	have, err := certs.PinHashes(c.CA)
	if err != nil {
		return fmt.Errorf(discoveryPhase+"failed to parse cluster CA from the cluster-info ConfigMap: %w", err)
	}
	for _, h := range have {
		if slices.ContainsFunc(hashes, func(pin string) bool { return strings.EqualFold(pin, h) }) {
			return nil
		}
	}
	return fmt.Errorf(discoveryPhase+"cluster CA found in cluster-info ConfigMap is invalid: none of the public keys %q are pinned", strings.Join(have, ":"))
}

var tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

// signs is the check by which a machine verifies that the cluster has its token:
// the signature of cluster-info.
func (c Cluster) signs(token string) error {
	id, data, err := c.token(token)
	if err != nil {
		return fmt.Errorf(discoveryPhase+"%w", err)
	}
	if data["usage-bootstrap-signing"] != "true" {
		return fmt.Errorf(discoveryPhase+"token id %q is not for signing: its Secret has no usage-bootstrap-signing", id)
	}
	return nil
}

// mayJoin is the check by which the cluster authenticates the machine.
func (c Cluster) mayJoin(token string) error {
	id, data, err := c.token(token)
	if err != nil {
		return fmt.Errorf(configPhase+"Unauthorized: %w", err)
	}
	if data["usage-bootstrap-authentication"] != "true" {
		return fmt.Errorf(configPhase+"Unauthorized: token id %q is not for authentication: its Secret has no usage-bootstrap-authentication", id)
	}
	groups := strings.Split(data["auth-extra-groups"], ",")
	if !slices.ContainsFunc(groups, func(g string) bool { return strings.TrimSpace(g) == nodeTokens }) {
		return fmt.Errorf(configPhase+"configmaps \"kubeadm-config\" is forbidden: User \"system:bootstrap:%s\" cannot get resource \"configmaps\" "+
			"in API group \"\" in the namespace \"kube-system\": the token's auth-extra-groups has no %s", id, nodeTokens)
	}
	return nil
}

// token finds the Secret of a token and checks all but what it is for.
func (c Cluster) token(token string) (id string, data map[string]string, err error) {
	m := tokenForm.FindStringSubmatch(token)
	if m == nil {
		return "", nil, fmt.Errorf("the bootstrap token is not of the form %s", tokenForm)
	}
	id = m[1]
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}}
	if err := c.Objects.Load(s); apierrors.IsNotFound(err) {
		return id, nil, fmt.Errorf("token id %q is invalid for this cluster or it has expired: there is no Secret kube-system/%s", id, s.Name)
	} else if err != nil {
		return id, nil, err
	}
	data = map[string]string{}
	for k, v := range s.Data {
		data[k] = string(v)
	}
	switch {
	case s.Type != corev1.SecretTypeBootstrapToken:
		return id, nil, fmt.Errorf("token id %q is invalid for this cluster: Secret kube-system/%s has the type %q, not %q", id, s.Name, s.Type, corev1.SecretTypeBootstrapToken)
	case s.DeletionTimestamp != nil:
		return id, nil, fmt.Errorf("token id %q is being deleted", id)
	case data["token-id"] != id || subtle.ConstantTimeCompare([]byte(data["token-secret"]), []byte(m[2])) != 1:
		return id, nil, fmt.Errorf("failed to verify JWS signature of received cluster info object, can't trust this API Server: the secret part of token id %q is not the cluster's", id)
	}
	if expires := data["expiration"]; expires != "" {
		at, err := time.Parse(time.RFC3339, expires)
		if err != nil {
			return id, nil, fmt.Errorf("token id %q has an expiration that is not a time", id)
		}
		if !c.Now.Before(at) {
			return id, nil, fmt.Errorf("token id %q is invalid for this cluster or it has expired: it expired on %s", id, expires)
		}
	}
	return id, data, nil
}

// discovery is the content of a discovery file.
type discovery struct {
	server      string
	ca          []byte
	token       string
	certificate bool // the user has a client certificate
}

func (r *Run) discoveryFile() (discovery, error) {
	name := r.docs.Join.Discovery.File.KubeConfigPath
	content, ok := r.files[path.Clean(name)]
	if !ok {
		return discovery{}, fmt.Errorf(discoveryPhase+"failed to load the discovery file %q: open %s: no such file or directory", name, name)
	}
	if err := sanitize.CheckYAML(content); err != nil {
		return discovery{}, fmt.Errorf(discoveryPhase+"failed to load the discovery file %q: it is %w", name, err)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		return discovery{}, fmt.Errorf(discoveryPhase+"failed to load the discovery file %q: it is not a kubeconfig", name)
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.Clusters[context.Cluster] == nil {
		return discovery{}, fmt.Errorf(discoveryPhase+"the discovery file %q has no current context with a cluster", name)
	}
	cluster := config.Clusters[context.Cluster]
	d := discovery{server: strings.TrimPrefix(cluster.Server, "https://"), ca: cluster.CertificateAuthorityData}
	if len(d.ca) == 0 && cluster.CertificateAuthority != "" {
		d.ca = r.files[path.Clean(cluster.CertificateAuthority)]
	}
	if user := config.AuthInfos[context.AuthInfo]; user != nil {
		d.token = user.Token
		d.certificate = len(user.ClientCertificateData) > 0 || r.files[path.Clean(user.ClientCertificate)] != nil || user.Exec != nil
	}
	return d, nil
}

func (d discovery) check(c Cluster) error {
	if !SameEndpoint(d.server, c.Endpoint) {
		return fmt.Errorf(discoveryPhase+"no API server of this cluster answers at %q: it is reached at %s", d.server, c.Endpoint)
	}
	if !bytes.Equal(bytes.TrimSpace(d.ca), bytes.TrimSpace(c.CA)) {
		return errors.New(discoveryPhase + "x509: certificate signed by unknown authority: the authority in the discovery file is not the cluster's")
	}
	return nil
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
