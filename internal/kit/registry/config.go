// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"sigs.k8s.io/yaml"
)

// config is the content of a user's registry file.
type config struct {
	Registries map[string]struct {
		// Mirrors are tried before the registry, in order.
		Mirrors []string `json:"mirrors,omitempty"`
		// CAFile is a file of certificates with which the registry is trusted, in
		// addition to those of the host; relative to the folder of this file.
		CAFile string `json:"caFile,omitempty"`
		// PlainHTTP is true if the registry does not use TLS.
		PlainHTTP bool `json:"plainHTTP,omitempty"`
	} `json:"registries"`
}

// Read adds the configuration of registries in a file to options. If the file does
// not exist, they are unchanged.
func (o Options) Read(file string) (Options, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	var c config
	if err == nil {
		err = yaml.UnmarshalStrict(text, &c)
	}
	if err != nil {
		return o, fmt.Errorf("read how registries are asked: %s: %w", file, err)
	}
	mirrors, authorities := map[string][]string{}, map[string]*x509.CertPool{}
	for host, r := range c.Registries {
		mirrors[host] = append(o.Mirrors[host], r.Mirrors...)
		if r.PlainHTTP {
			o.PlainHTTP = append(o.PlainHTTP[:len(o.PlainHTTP):len(o.PlainHTTP)], host)
		}
		if r.CAFile == "" {
			continue
		}
		if authorities[host], err = trusted(filepath.Dir(file), r.CAFile); err != nil {
			return o, fmt.Errorf("read how registries are asked: %s: registries[%s].caFile: %w", file, host, err)
		}
	}
	for host, more := range o.Mirrors {
		if mirrors[host] == nil {
			mirrors[host] = more
		}
	}
	for host, more := range o.Authorities {
		if authorities[host] == nil {
			authorities[host] = more
		}
	}
	o.Mirrors, o.Authorities = mirrors, authorities
	return o, nil
}

// trusted returns the authorities of the host and those of a file.
func trusted(dir, file string) (*x509.CertPool, error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all, err := x509.SystemCertPool()
	if err != nil {
		all = x509.NewCertPool() // the host has none
	}
	if !all.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM: name the file of the authority that signed the registry's", file)
	}
	return all, nil
}

// Keys are credentials by the name of a registry, or of repositories below a path of it.
type Keys map[string]authn.AuthConfig

// Resolve implements authn.Keychain. The longest name counts.
func (k Keys) Resolve(of authn.Resource) (authn.Authenticator, error) {
	for at := of.String(); at != "." && at != "/"; at = path.Dir(at) {
		if auth, ok := k[at]; ok {
			return authn.FromConfig(auth), nil
		}
	}
	return authn.Anonymous, nil
}
