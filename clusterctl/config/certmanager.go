// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const (
	// certManagerVersion is the release that is installed unless the file has another:
	// the one that upstream installs.
	certManagerVersion = "v1.21.1"

	certManagerURL = "https://github.com/cert-manager/cert-manager/releases/latest/cert-manager.yaml"

	// certManagerTimeout is upstream's: images may have to be pulled.
	certManagerTimeout = 10 * time.Minute
)

// CertManager describes how cert-manager is installed on a management cluster.
type CertManager struct {
	// URL and Version of its release.
	URL, Version string
	// Timeout is how long it may take to respond after its installation.
	Timeout time.Duration
	// ExternallyProvisioned is true if it is installed by other means.
	ExternallyProvisioned bool
}

// Provider describes the source of cert-manager's releases in the form of a provider; it
// has no type and no metadata.
func (m CertManager) Provider() Provider { return Provider{Name: "cert-manager", URL: m.URL} }

// CertManager returns the settings of cert-manager in the file.
func (c *Config) CertManager() (CertManager, error) {
	var said struct {
		URL                   string `json:"url"`
		Version               string `json:"version"`
		Timeout               string `json:"timeout"`
		ExternallyProvisioned bool   `json:"externallyProvisioned"`
	}
	if err := c.decode("cert-manager", &said); err != nil {
		return CertManager{}, err
	}
	bad := func(key string, err error) (CertManager, error) {
		return CertManager{}, fmt.Errorf("%s: cert-manager: %s: %w", c.where(), key, err)
	}
	filled, err := c.fill(said.URL)
	if err == nil {
		_, err = url.Parse(filled)
	}
	if err != nil {
		return bad("url", err)
	}
	m := CertManager{
		URL: cmp.Or(filled, certManagerURL), Version: cmp.Or(said.Version, certManagerVersion),
		Timeout: certManagerTimeout, ExternallyProvisioned: said.ExternallyProvisioned,
	}
	if said.Timeout != "" {
		if m.Timeout, err = time.ParseDuration(strings.TrimSpace(said.Timeout)); err != nil || m.Timeout <= 0 {
			return bad("timeout", fmt.Errorf("%q is no duration: it has the form 10m", said.Timeout))
		}
	}
	return m, nil
}

// Overrides is the folder of files that replace those of repositories:
// <label>/<version>/<file>. It need not exist.
func (c *Config) Overrides() (string, error) {
	if folder, ok := c.Variable("overridesFolder"); ok && folder != "" {
		filled, err := c.fill(folder)
		if err != nil {
			return "", fmt.Errorf("overridesFolder: %w", err)
		}
		return strings.TrimPrefix(filled, "file://"), nil
	}
	return c.first("overrides"), nil
}
