// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

// kubeconfigFiles are where the kubeconfig of a workload cluster may lie: by its
// name, or by name and authority where another cluster has the name, too.
func kubeconfigFiles(dataDir string, key client.ObjectKey, data []byte) [2]string {
	path := filepath.Join(dataDir, "clusters", key.Namespace, key.Name)
	return [2]string{path + ".kubeconfig", fmt.Sprintf("%s-%.8x.kubeconfig", path, sha256.Sum256([]byte(identity(data))))}
}

// saveKubeconfig writes the admin kubeconfig of a workload cluster where only its
// user can read it, and returns the path. Clusters of several management clusters
// may have one name; the file of another one stays, since its users would reach the
// wrong cluster.
func saveKubeconfig(env *Env, dataDir string, key client.ObjectKey, data []byte) (string, error) {
	path, err := place(env, dataDir, key, data)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), atomicfile.Write(path, data))
	}
	if err != nil {
		return "", fmt.Errorf("write kubeconfig of Cluster %s: %w (`capstan get kubeconfig %s -n %s` prints it)", key, err, key.Name, key.Namespace)
	}
	return path, nil
}

func place(env *Env, dataDir string, key client.ObjectKey, data []byte) (string, error) {
	if dataDir == "" {
		return "", errors.New("there is no data directory: name one with --data-dir")
	}
	files := kubeconfigFiles(dataDir, key, data)
	old, err := os.ReadFile(files[0])
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && identity(old) == identity(data):
		return files[0], nil
	case err != nil:
		return "", err
	}
	env.Say("%s is of another cluster of that name, and stays as it is", files[0])
	return files[1], nil
}

// dropKubeconfig removes the files that saveKubeconfig wrote for the cluster
// whose kubeconfig data is.
func dropKubeconfig(dataDir string, key client.ObjectKey, data []byte) error {
	for _, path := range kubeconfigFiles(dataDir, key, data) {
		old, err := os.ReadFile(path)
		if err != nil || dataDir == "" || identity(old) != identity(data) {
			continue // not there, or not ours
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove kubeconfig of Cluster %s: %w", key, err)
		}
	}
	return nil
}

// identity distinguishes kubeconfigs of different clusters, and is the same for all
// of one: each cluster has its own authority.
func identity(data []byte) string {
	cfg, err := kubeconfig.RESTConfig(data)
	if err != nil {
		return string(data)
	}
	return cmp.Or(string(cfg.CAData), cfg.Host)
}
