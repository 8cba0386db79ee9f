// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestImages(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("a", 64)
	c := load(t, "c.yaml", `images:
  all: {repository: mirror.local/all/}
  infrastructure-aws: {repository: "mirror.local:5000/aws", tag: v9}
  infrastructure-aws/kube-rbac-proxy: {name: proxy, tag: ""}
  cert-manager/cert-manager-acmesolver: {tag: v0.1.0}
`, nil)
	for _, tc := range []struct{ component, image, want string }{
		{"cluster-api", "registry.k8s.io/cluster-api/controller:v1.12.0", "mirror.local/all/controller:v1.12.0"},
		{"cluster-api", "nginx", "mirror.local/all/nginx:latest"},
		{"cluster-api", "registry.k8s.io/a/b:v1" + digest, "mirror.local/all/b:v1" + digest},
		{"infrastructure-aws", "registry.k8s.io/capa/controller:v1" + digest, "mirror.local:5000/aws/controller:v9"},
		{"infrastructure-aws", "quay.io/brancz/kube-rbac-proxy:v1", "mirror.local:5000/aws/proxy:v9"},
		{"cert-manager", "quay.io/jetstack/cert-manager-acmesolver:v1.1.0", "mirror.local/all/cert-manager-acmesolver:v0.1.0"},
	} {
		if got, err := c.Image(tc.component, tc.image); err != nil || got != tc.want {
			t.Errorf("%s of %s becomes %s, %v, want %s", tc.image, tc.component, got, err, tc.want)
		}
	}
	if _, err := c.Image("a", "UPPER:x:y"); err == nil || !strings.Contains(err.Error(), `image "UPPER:x:y" of a`) {
		t.Errorf("error %v", err)
	}
	var without Config
	if got, err := without.Image("a", "as it is"); err != nil || got != "as it is" {
		t.Errorf("%q, %v", got, err)
	}
	bad := load(t, "c.yaml", "images: {all: {repository: 'Not A Host'}}", nil)
	if _, err := bad.Image("a", "nginx:v1"); err == nil || !strings.Contains(err.Error(), `images: what replaces nginx:v1 of a is "Not A Host/nginx:v1"`) {
		t.Errorf("error %v", err)
	}
}

func TestCertManager(t *testing.T) {
	t.Parallel()
	var without Config
	if got, err := without.CertManager(); err != nil || got != (CertManager{URL: certManagerURL, Version: "v1.21.1", Timeout: 10 * time.Minute}) {
		t.Errorf("%+v, %v", got, err)
	}
	c := load(t, "c.yaml", "cert-manager: {url: 'https://${HOST}/cert-manager.yaml', version: 1.30, timeout: 1m30s, externallyProvisioned: true, <<: {url: of the merge}}", map[string]string{"HOST": "h"})
	want := CertManager{URL: "https://h/cert-manager.yaml", Version: "1.30", Timeout: 90 * time.Second, ExternallyProvisioned: true}
	if got, err := c.CertManager(); err != nil || got != want || got.Provider().Label() != "cert-manager" {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"{timeout: soon}": `cert-manager: timeout: "soon" is no duration`, "{timeout: -1s}": "is no duration", "{url: 'https://${UNSET}'}": "UNSET", "text": "cert-manager: json:",
	} {
		if _, err := load(t, "c.yaml", "cert-manager: "+text, nil).CertManager(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	environment := map[string]string{"HOME": home}
	for want, c := range map[string]*Config{
		"":                                      {},
		home + "/.config/cluster-api/overrides": {lookup: lookup(environment)},
		home + "/mine":                          load(t, "c.yaml", "overridesFolder: ${HOME}/mine", environment),
	} {
		if got, err := c.Overrides(); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	old := filepath.Dir(write(t, home, ".cluster-api/overrides/x", ""))
	if got, err := (&Config{lookup: lookup(environment)}).Overrides(); err != nil || got != old {
		t.Errorf("%q, %v, want %q", got, err, old)
	}
	if _, err := load(t, "c.yaml", "overridesFolder: ${UNSET}", nil).Overrides(); err == nil {
		t.Error("no error for an unknown variable")
	}
}
