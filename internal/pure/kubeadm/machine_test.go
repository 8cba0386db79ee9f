// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"testing"

	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// fullSpec has every field that a document can show, apart from the three
// kubeadm configurations.
func fullSpec() bootstrapv1.KubeadmConfigSpec {
	return bootstrapv1.KubeadmConfigSpec{
		Files: []bootstrapv1.File{
			{Path: "/etc/motd", Owner: "root:root", Permissions: "0644", Content: "Welcome to {{ ds.meta_data.local_hostname }}\n"},
			{Path: "/etc/hosts", Append: new(true), Encoding: bootstrapv1.Base64, Content: "MTI3LjAuMC4xIG1pcnJvcgo="},
		},
		BootCommands:        []string{"modprobe br_netfilter"},
		PreKubeadmCommands:  []string{"hostnamectl set-hostname \"{{ ds.meta_data.local_hostname }}\"", "swapoff -a"},
		PostKubeadmCommands: []string{"echo done"},
		Users: []bootstrapv1.User{{
			Name: "ops", Gecos: "Operators", Groups: "wheel", HomeDir: "/home/ops", Inactive: new(false), Shell: "/bin/sh", Passwd: "$6$salt$hash",
			PrimaryGroup: "ops", LockPassword: new(true), Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA ops"},
		}},
		NTP: bootstrapv1.NTP{Enabled: new(true), Servers: []string{"ntp.example"}},
		DiskSetup: bootstrapv1.DiskSetup{
			Partitions: []bootstrapv1.Partition{{Device: "/dev/sdb", Layout: new(true), Overwrite: new(true), TableType: "gpt"}},
			Filesystems: []bootstrapv1.Filesystem{{
				Device: "/dev/sdb", Filesystem: "ext4", Label: "etcd", Partition: "auto", Overwrite: new(false), ExtraOpts: []string{"-F"},
			}},
		},
		Mounts:    []bootstrapv1.MountPoints{{"LABEL=etcd", "/var/lib/etcd"}},
		Verbosity: new(int32(5)),
	}
}

func fullPairs() Pairs {
	pem := func(kind, what string) []byte {
		return []byte("-----BEGIN " + kind + "-----\n" + what + "\n-----END " + kind + "-----\n")
	}
	pair := func(what string) Pair { return Pair{pem("CERTIFICATE", what), pem("PRIVATE KEY", what+" key")} }
	return Pairs{CA: pair("ca"), Etcd: pair("etcd"), FrontProxy: pair("proxy"), ServiceAccount: Pair{pem("PUBLIC KEY", "sa"), pem("PRIVATE KEY", "sa key")}}
}

func TestDocumentsAreAsTheyWere(t *testing.T) {
	t.Parallel()
	worker := fullJoin()
	worker.ControlPlane = nil
	tests := map[string]struct {
		verb, version string
		join          bootstrapv1.JoinConfiguration
		certs         bool
	}{
		"init-1.30":               {verb: Init, version: "v1.30.4", certs: true},
		"init-1.36":               {verb: Init, version: "v1.36.3", certs: true},
		"join-control-plane-1.30": {verb: Join, version: "v1.30.4", join: fullJoin(), certs: true},
		"join-control-plane-1.36": {verb: Join, version: "v1.36.3", join: fullJoin(), certs: true},
		"join-worker-1.30":        {verb: Join, version: "v1.30.4", join: worker},
		"join-worker-1.36":        {verb: Join, version: "v1.36.3", join: worker},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			boot := Boot{Verb: tc.verb, Spec: fullSpec()}
			if tc.certs {
				boot.Certs = CertificateFiles(fullCluster(), fullPairs())
			}
			var err error
			if tc.verb == Init {
				data := fullData()
				data.KubernetesVersion = tc.version
				boot.Config, err = RenderInit(fullCluster(), fullInit(), data)
			} else {
				boot.Config, err = RenderJoin(tc.join, tc.version)
			}
			if err != nil {
				t.Fatal(err)
			}
			doc, err := boot.Data()
			if err != nil {
				t.Fatal(err)
			}
			builder.Golden(t, name+".txt", doc)

			var read struct {
				Files []struct{ Path, Content string } `json:"write_files"`
			}
			if err := yaml.Unmarshal(doc, &read); err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range read.Files {
				files[f.Path] = f.Content
			}
			if got := files[boot.configPath()]; got != string(boot.Config) {
				t.Errorf("read back: config %q, want %q", got, boot.Config)
			}
			if got := files["/etc/pki/kubernetes/ca.key"] != ""; got != tc.certs {
				t.Errorf("read back: has the key of the authority: %t, want %t", got, tc.certs)
			}
		})
	}
}
