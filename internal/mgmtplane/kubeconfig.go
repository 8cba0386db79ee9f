// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/pki"
)

// writeKubeconfig writes the administrator's kubeconfig, with everything in it.
func writeKubeconfig(path string, keys pki.Folder, server string) error {
	var data [3][]byte
	for i, file := range []string{keys.Cert("ca"), keys.Cert("admin"), keys.Key("admin")} {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		data[i] = b
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["capstan"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: data[0]}
	cfg.AuthInfos["capstan-admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: data[1], ClientKeyData: data[2]}
	cfg.Contexts["capstan"] = &clientcmdapi.Context{Cluster: "capstan", AuthInfo: "capstan-admin"}
	cfg.CurrentContext = "capstan"
	b, err := clientcmd.Write(*cfg)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, b)
}
