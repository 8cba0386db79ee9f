// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
)

// TestBuiltInProvidersAreThoseOfGitHub: each has the form in which repositories read it.
func TestBuiltInProvidersAreThoseOfGitHub(t *testing.T) {
	t.Parallel()
	var without Config
	all, err := without.Providers()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, p := range all {
		if _, twice := labels[p.Label()]; twice {
			t.Errorf("%s is there twice", p.Label())
		}
		labels[p.Label()] = p.URL
		if parts := strings.Split(p.URL, "/"); p.Name != Local && (len(parts) != 8 || !strings.HasPrefix(p.URL, "https://github.com/") || parts[5] != "releases" || parts[6] != "latest" || !strings.HasSuffix(p.URL, ".yaml")) {
			t.Errorf("%s is at %s", p.Label(), p.URL)
		}
	}
	for label, url := range map[string]string{
		"cluster-api":           "https://github.com/kubernetes-sigs/cluster-api/releases/latest/core-components.yaml",
		"bootstrap-kubeadm":     "https://github.com/kubernetes-sigs/cluster-api/releases/latest/bootstrap-components.yaml",
		"control-plane-kubeadm": "https://github.com/kubernetes-sigs/cluster-api/releases/latest/control-plane-components.yaml",
		"infrastructure-aws":    "https://github.com/kubernetes-sigs/cluster-api-provider-aws/releases/latest/infrastructure-components.yaml",
		"addon-helm":            "https://github.com/kubernetes-sigs/cluster-api-addon-provider-helm/releases/latest/addon-components.yaml",
		"infrastructure-local":  "embedded:///infrastructure-local/latest/infrastructure-components.yaml",
	} {
		if labels[label] != url {
			t.Errorf("%s is at %q, want %s", label, labels[label], url)
		}
	}
}

func TestComponentsFileIsNamedByItsType(t *testing.T) {
	t.Parallel()
	for kind, want := range map[clusterctlv1.ProviderType]string{
		clusterctlv1.CoreProviderType: "core-components.yaml", clusterctlv1.BootstrapProviderType: "bootstrap-components.yaml", clusterctlv1.ControlPlaneProviderType: "control-plane-components.yaml",
		clusterctlv1.InfrastructureProviderType: "infrastructure-components.yaml", clusterctlv1.IPAMProviderType: "ipam-components.yaml",
		clusterctlv1.RuntimeExtensionProviderType: "runtime-extension-components.yaml", clusterctlv1.AddonProviderType: "addon-components.yaml",
	} {
		if got := (Provider{Name: "x", Type: kind}).ComponentsFile(); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

func TestProviderOfAnUnknownTypeIsRefused(t *testing.T) {
	t.Parallel()
	_, err := new(Config).Provider("x", "Addon")
	if err == nil || !strings.HasPrefix(err.Error(), `provider type "Addon" is not known: use CoreProvider, BootstrapProvider, `) {
		t.Errorf("error %v", err)
	}
	_, err = new(Config).Provider("\x1b[2J", clusterctlv1.IPAMProviderType)
	unknown, ok := errors.AsType[*UnknownProviderError](err)
	if !ok || unknown.Type != clusterctlv1.IPAMProviderType || !slices.Contains(unknown.Known, "in-cluster") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("error %q", err)
	}
}

func TestConfigurationIsFetchedFromURL(t *testing.T) {
	t.Parallel()
	fetched := ""
	answer := "VERSION: 1.30\n"
	fetch := func(url string) ([]byte, error) {
		fetched = url
		if answer == "" {
			return nil, errors.New("no route to host")
		}
		return []byte(answer), nil
	}
	const url = "https://me:secret@example.com/clusterctl.yaml"
	c, err := Load(Options{File: url, Fetch: fetch})
	if v, _ := c.Variable("VERSION"); err != nil || v != "1.30" || fetched != url || strings.Contains(c.File(), "secret") {
		t.Errorf("%v, version %q of %s, file %s", err, v, fetched, c.File())
	}
	answer = "a: ["
	if _, err := Load(Options{File: url, Fetch: fetch}); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "it is not valid YAML") {
		t.Errorf("a document that is none: error %v", err)
	}
	answer = strings.Repeat("#", maxFile+1)
	if _, err := Load(Options{File: url, Fetch: fetch}); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("a large document: error %v", err)
	}
	answer = ""
	if _, err := Load(Options{File: url, Fetch: fetch}); err == nil || err.Error() != "no route to host" {
		t.Errorf("without an answer: error %v", err)
	}
	if _, err := Load(Options{File: "http://example.com/x"}); err == nil || !strings.Contains(err.Error(), "give a local file") {
		t.Errorf("without a way to fetch: error %v", err)
	}
}

// TestFileOfAHomeThatIsBrokenIsNotSkipped: another file must not take its place.
func TestFileOfAHomeThatIsBrokenIsNotSkipped(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write(t, home, ".config/cluster-api/clusterctl.yaml", "a: [")
	write(t, home, ".cluster-api/clusterctl.yaml", "a: b")
	for name, environment := range map[string]map[string]string{"a home": {"HOME": home}, "a relative folder is none": {"HOME": home, "XDG_CONFIG_HOME": "relative"}} {
		c, err := Load(Options{Lookup: lookup(environment)})
		if broken := environment["XDG_CONFIG_HOME"] == ""; (err != nil) != broken || !broken && c.File() != filepath.Join(home, ".cluster-api", "clusterctl.yaml") {
			t.Errorf("%s: file %s, error %v", name, c.File(), err)
		}
	}
	if os.Getuid() == 0 {
		return // root reads all files
	}
	path := write(t, home, ".config/cluster-api/clusterctl.yaml", "a: b")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Options{Lookup: lookup(map[string]string{"HOME": home})}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a file that cannot be read: error %v", err)
	}
}
