// SPDX-License-Identifier: Apache-2.0

package capstan

import "testing"

// mechanisms names the package that alone calls some functions, so that each mechanism
// exists once.
var mechanisms = map[string]map[string][]string{
	"internal/kit/certs": {
		"crypto/ecdsa": {"GenerateKey"}, "crypto/ed25519": {"GenerateKey"}, "crypto/rsa": {"GenerateKey"},
		"crypto/x509": {"CreateCertificate"},
	},
	"internal/kit/lockfile": {"golang.org/x/sys/unix": {"Flock"}},
	"internal/kit/registry": {
		"github.com/google/go-containerregistry/pkg/v1/remote": {"Get", "Image", "Index", "Layer", "List", "NewPuller"},
	},
	"internal/host/ociimages/layers": {"github.com/klauspost/compress/zstd": {"NewReader"}},
}

func TestMechanismsExistOnce(t *testing.T) {
	walk(t, func(s source) {
		for home, of := range mechanisms {
			if s.dir == home {
				continue
			}
			for _, call := range uses(s, of) {
				t.Errorf("%s calls %s: use %s", s.file, call, home)
			}
		}
	})
}
