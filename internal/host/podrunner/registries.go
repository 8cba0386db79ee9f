// SPDX-License-Identifier: Apache-2.0

package podrunner

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// registries are credentials by the name of the registry, as Docker writes them.
type registries map[string]authn.AuthConfig

// add adds the credentials of one Secret. Its errors contain nothing of the Secret.
func (r registries) add(key []byte) error {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if json.Unmarshal(key, &config) != nil {
		return errors.New("a Secret of spec.imagePullSecrets holds no configuration of Docker in .dockerconfigjson: make it with kubectl create secret docker-registry")
	}
	for name, auth := range config.Auths {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
		name, _, _ = strings.Cut(name, "/")
		r[name] = auth
	}
	return nil
}

// Resolve implements authn.Keychain.
func (r registries) Resolve(of authn.Resource) (authn.Authenticator, error) {
	if auth, ok := r[of.RegistryStr()]; ok {
		return authn.FromConfig(auth), nil
	}
	return authn.Anonymous, nil
}
