// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
)

// kept is the identity of a cluster, in a file next to its state.
type kept struct {
	ID           localinfra.ID                    `json:"id"` // which determines its address
	Version      string                           `json:"version"`
	ControlPlane int                              `json:"controlPlane"`
	Workers      int                              `json:"workers"`
	Token        bootstrapv1.BootstrapTokenString `json:"token"` // with which machines join
	PKI          bootstrap.PKI                    `json:"pki"`
}

func stateDir(dir string) string { return filepath.Join(dir, "state") }

// take reads the cluster in a directory, or creates one in it.
func take(o Options) (*kept, error) {
	if o.ControlPlane < 0 || o.Workers < 0 {
		return nil, errors.New("the numbers of Nodes must not be negative")
	}
	file := filepath.Join(o.Dir, "cluster.json")
	k := &kept{}
	switch data, err := os.ReadFile(file); {
	case errors.Is(err, fs.ErrNotExist):
		if k, err = begin(cmp.Or(o.Version, DefaultVersion)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case json.Unmarshal(data, k) != nil: // its text would quote a key
		return nil, fmt.Errorf("%s is damaged: put a copy of it back, or remove the directory to begin a new cluster", file)
	case o.Version != "" && o.Version != k.Version:
		return nil, fmt.Errorf("%s keeps a cluster of version %s, which cannot become %s: choose another directory", o.Dir, k.Version, o.Version)
	}
	k.ControlPlane, k.Workers = max(k.ControlPlane, o.ControlPlane, 1), max(k.Workers, o.Workers)
	data, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	return k, atomicfile.Write(file, data)
}

// begin creates the keys of a new cluster.
func begin(version string) (*kept, error) {
	if _, err := kubeadm.RenderJoin(bootstrapv1.JoinConfiguration{}, version); err != nil { // before it is stored permanently
		return nil, err
	}
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	text := hex.EncodeToString(random)
	k := &kept{ID: localinfra.ID(text[:32]), Version: version, Token: bootstrapv1.BootstrapTokenString{ID: text[32:38], Secret: text[38:54]}}
	for purpose, pair := range map[certs.Purpose]*certs.Pair{
		certs.CA: &k.PKI.CA, certs.Etcd: &k.PKI.Etcd, certs.FrontProxy: &k.PKI.FrontProxy, certs.ServiceAccount: &k.PKI.ServiceAccount,
	} {
		var err error
		if *pair, err = certs.New(purpose, certs.ECDSAP256, time.Now(), 0); err != nil {
			return nil, fmt.Errorf("make the keys for %s: %w", purpose, err)
		}
	}
	return k, nil
}

// node is a machine with the user data that makes it a Node.
type node struct {
	name string
	boot kubeadm.Boot
}

// nodes are the machines of the cluster, in the order in which they boot.
func (k *kept) nodes(endpoint string) ([]node, error) {
	hashes, err := certs.PinHashes(k.PKI.CA.Cert)
	if err != nil {
		return nil, err
	}
	init, err := kubeadm.RenderInit(
		bootstrapv1.ClusterConfiguration{},
		bootstrapv1.InitConfiguration{BootstrapTokens: []bootstrapv1.BootstrapToken{{Token: &k.Token, TTLSeconds: new(int32(0))}}},
		kubeadm.Data{KubernetesVersion: k.Version, ClusterName: key.Name, ControlPlaneEndpoint: endpoint})
	if err != nil {
		return nil, err
	}
	join := bootstrapv1.JoinConfiguration{Discovery: bootstrapv1.Discovery{BootstrapToken: bootstrapv1.BootstrapTokenDiscovery{
		Token: k.Token.String(), APIServerEndpoint: endpoint, CACertHashes: hashes,
	}}}
	worker, err := kubeadm.RenderJoin(join, k.Version)
	if err != nil {
		return nil, err
	}
	join.ControlPlane = &bootstrapv1.JoinControlPlane{}
	joiner, err := kubeadm.RenderJoin(join, k.Version)
	if err != nil {
		return nil, err
	}
	files := kubeadm.CertificateFiles(bootstrapv1.ClusterConfiguration{}, kubeadm.Pairs{
		CA: kubeadm.Pair(k.PKI.CA), Etcd: kubeadm.Pair(k.PKI.Etcd), FrontProxy: kubeadm.Pair(k.PKI.FrontProxy), ServiceAccount: kubeadm.Pair(k.PKI.ServiceAccount),
	})
	all := []node{{"control-plane-1", kubeadm.Boot{Verb: kubeadm.Init, Config: init, Certs: files}}}
	for i := 2; i <= k.ControlPlane; i++ {
		all = append(all, node{fmt.Sprintf("control-plane-%d", i), kubeadm.Boot{Verb: kubeadm.Join, Config: joiner, Certs: files}})
	}
	for i := range k.Workers {
		all = append(all, node{fmt.Sprintf("worker-%d", i+1), kubeadm.Boot{Verb: kubeadm.Join, Config: worker}})
	}
	return all, nil
}
