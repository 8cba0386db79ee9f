// SPDX-License-Identifier: Apache-2.0

package podrunner

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/capstan-dev/capstan/internal/kit/registry"
)

// addKeys adds the credentials of one Secret, as Docker writes them. Its errors contain
// nothing of the Secret.
func addKeys(keys registry.Keys, key []byte) error {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if json.Unmarshal(key, &config) != nil {
		return errors.New("a Secret of spec.imagePullSecrets holds no configuration of Docker in .dockerconfigjson: make it with kubectl create secret docker-registry")
	}
	for name, auth := range config.Auths {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
		name, _, _ = strings.Cut(name, "/")
		keys[name] = auth
	}
	return nil
}
