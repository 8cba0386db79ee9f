// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"errors"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
)

// Endpoint returns the endpoint of the extension in an ExtensionConfig. Whether a
// URL can be used shows when it is called.
func Endpoint(c runtimev1.ClientConfig) (transport.Endpoint, error) {
	e := transport.Endpoint{URL: c.URL, CABundle: c.CABundle}
	switch s := c.Service; {
	case c.URL != "" && s.Name != "":
		return e, errors.New("spec.clientConfig: url and service are both set: keep one")
	case c.URL == "" && s.Name == "":
		return e, errors.New("spec.clientConfig: neither url nor service is set")
	case s.Name != "":
		e.Service = &transport.Service{Namespace: s.Namespace, Name: s.Name, Path: s.Path}
		if s.Port != nil {
			e.Service.Port = *s.Port
		}
	}
	return e, nil
}
