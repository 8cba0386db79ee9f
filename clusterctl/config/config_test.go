// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
)

// load reads a configuration file with the given content, with an environment.
func load(t *testing.T, name, content string, environment map[string]string) *Config {
	t.Helper()
	path := write(t, t.TempDir(), name, content)
	c, err := Load(Options{File: path, Lookup: lookup(environment)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func lookup(environment map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := environment[name]
		return v, ok
	}
}

func write(t *testing.T, folder, name, content string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVariablesComeFromTheEnvironmentBeforeTheFile(t *testing.T) {
	t.Parallel()
	c := load(t, "c.yaml", "gitlab-access-token: of-file\nAWS_REGION: of-file\nmixed_Case: of-file\nVERSION: 1.30\nCOUNT: 010\nON: yes\nNOTHING: null\nEMPTY: ''\nZONES: [a, b]\n", map[string]string{
		"GITLAB_ACCESS_TOKEN": "of-environment", "AWS_REGION": "", "own": "as it is", "OWN": "in capitals",
	})
	for name, want := range map[string]string{
		"gitlab-access-token": "of-environment", "AWS_REGION": "", "own": "as it is", "MIXED_CASE": "of-file",
		"VERSION": "1.30", "COUNT": "010", "ON": "yes", "EMPTY": "", "ZONES": `["a","b"]`,
	} {
		if got, ok := c.Variable(name); !ok || got != want {
			t.Errorf("%s is %q, %v, want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"NOTHING", "nowhere"} {
		if got, ok := c.Variable(name); ok {
			t.Errorf("%s is %q, want none", name, got)
		}
	}
}

func TestFilesOfOtherFormats(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"c.json": "{\"VERSION\": \"1.30\",\n\t\"COUNT\": 10, \"providers\": [{\"Name\": \"x\", \"type\": \"IPAMProvider\", \"url\": \"/x\"}]}",
		"c.toml": "VERSION = '1.30'\nCOUNT = 10\n[[providers]]\nname = 'x'\ntype = 'IPAMProvider'\nurl = '/x'\n",
		"c.YML":  "\ufeffVERSION: 1.30\r\nCOUNT: 10\r\nproviders:\r\n- {name: x, type: IPAMProvider, url: /x}\r\n",
		"c":      "VERSION: 1.30\nCOUNT: 10\nproviders: [&p {name: x, type: IPAMProvider, url: /x}]\n",
	} {
		c := load(t, name, content, nil)
		version, _ := c.Variable("VERSION")
		count, _ := c.Variable("COUNT")
		p, err := c.Provider("x", clusterctlv1.IPAMProviderType)
		if version != "1.30" || count != "10" || p.URL != "/x" || err != nil {
			t.Errorf("%s: version %q, count %q, provider %v, %v", name, version, count, p, err)
		}
	}
}

func TestTheFileOfAHomeIsFound(t *testing.T) {
	t.Parallel()
	home, xdg := t.TempDir(), t.TempDir()
	environment := map[string]string{"HOME": home, "XDG_CONFIG_HOME": xdg}
	find := func(want string) {
		t.Helper()
		c, err := Load(Options{Lookup: lookup(environment)})
		if err != nil || c.File() != want {
			t.Errorf("found %q, %v, want %q", c.File(), err, want)
		}
	}
	find("")
	old := write(t, home, ".cluster-api/clusterctl.yaml", "a: b")
	find(old)
	standard := write(t, home, ".config/cluster-api/clusterctl.yml", "a: b")
	find(old)
	delete(environment, "XDG_CONFIG_HOME")
	find(standard)
	environment["XDG_CONFIG_HOME"] = xdg
	find(write(t, xdg, "cluster-api/clusterctl.json", "{}"))
}

func TestAFileThatIsNamedMustBeThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tc := range map[string]struct{ file, want string }{
		"gone":        {filepath.Join(dir, "gone.yaml"), "no such file or directory"},
		"a directory": {dir, "is a directory: name a file"},
		"no YAML":     {write(t, dir, "no.yaml", "a: [b"), "no.yaml: it is not valid YAML"},
		"a list":      {write(t, dir, "list.yaml", "- a"), "list.yaml: it is not a YAML map"},
		"two":         {write(t, dir, "two.yaml", "a: b\n---\na: c\n"), "more than one YAML document"},
		"twice":       {write(t, dir, "twice.yaml", "a: b\na: c\n"), `mapping key "a" already defined at line 1`},
		"no JSON":     {write(t, dir, "no.json", "a: b"), "no.json: it is not valid JSON"},
		"no TOML":     {write(t, dir, "no.toml", "a: b"), "no.toml: it is not valid TOML"},
		"an INI file": {write(t, dir, "no.ini", "a = b"), "no.ini: .ini is not read: write it as YAML, JSON or TOML"},
		"a bomb":      {write(t, dir, "bomb.yaml", bomb()), "excessive aliasing"},
		"large":       {write(t, dir, "large.yaml", strings.Repeat("#", maxFile+1)), "larger than 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Load(Options{File: tc.file}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestProvidersOfTheFileAddAndReplace(t *testing.T) {
	t.Parallel()
	c := load(t, "c.yaml", `providers:
- name: aws
  url: https://github.com/mine/aws/releases/v1.0.0/infrastructure-components.yaml
  type: InfrastructureProvider
- name: my-own
  url: file://${HOME}/repository/ipam-my-own/latest/ipam-components.yaml
  type: IPAMProvider
`, map[string]string{"HOME": "/home/me"})
	all, err := c.Providers()
	if err != nil {
		t.Fatal(err)
	}
	var without Config
	ours, err := without.Providers()
	if err != nil || len(all) != len(ours)+1 {
		t.Errorf("%d providers, and %d that are built in, %v", len(all), len(ours), err)
	}
	for i := range all {
		if i > 0 && Compare(all[i-1], all[i]) >= 0 {
			t.Errorf("%s is before %s", all[i-1].Label(), all[i].Label())
		}
		if err := all[i].check(); err != nil {
			t.Errorf("%s: %v", all[i].Label(), err)
		}
	}
	for _, want := range []Provider{
		{"aws", clusterctlv1.InfrastructureProviderType, "https://github.com/mine/aws/releases/v1.0.0/infrastructure-components.yaml"},
		{"my-own", clusterctlv1.IPAMProviderType, "file:///home/me/repository/ipam-my-own/latest/ipam-components.yaml"},
		{"docker", clusterctlv1.InfrastructureProviderType, "https://github.com/kubernetes-sigs/cluster-api/releases/latest/infrastructure-components-development.yaml"},
	} {
		if got, err := c.Provider(want.Name, want.Type); err != nil || got != want {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	if _, err := c.Provider("helmet", clusterctlv1.AddonProviderType); err == nil || !strings.Contains(err.Error(), `there is no AddonProvider "helmet": did you mean "helm"?`) {
		t.Errorf("got %v, want the nearest name", err)
	}
	if _, err := c.Provider("awss", clusterctlv1.AddonProviderType); err == nil || !strings.Contains(err.Error(), `there is no AddonProvider "awss"`) || !strings.Contains(err.Error(), "eitco-cdk8s, helm, rancher-fleet") {
		t.Errorf("error %v", err)
	}
}

func TestEntriesOfProvidersThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ entry, want string }{
		"without a name":      {"{url: https://x/y, type: AddonProvider}", "entry 1 (without a name): name is missing"},
		"a name in capitals":  {"{name: AWS, url: https://x/y, type: AddonProvider}", `entry 1 (AWS): name "AWS": use lower-case letters`},
		"a name with an end":  {"{name: a-, url: https://x/y, type: AddonProvider}", "with a letter or digit at both ends"},
		"a name with a dot":   {"{name: a.b, url: https://x/y, type: AddonProvider}", "use lower-case letters"},
		"a long name":         {"{name: " + strings.Repeat("a", 64) + ", url: https://x/y, type: AddonProvider}", "at most 63"},
		"an unknown type":     {"{name: a, url: https://x/y, type: Addon}", `type "Addon" is not known: use CoreProvider, BootstrapProvider`},
		"without a type":      {"{name: a, url: https://x/y}", `type "" is not known`},
		"without a URL":       {"{name: a, type: AddonProvider}", "url is missing"},
		"a URL with nonsense": {"{name: a, url: 'https://x/%zz', type: AddonProvider}", "url: parse"},
		"a URL with unknowns": {"{name: a, url: 'https://${NOWHERE}/', type: AddonProvider}", "url: no value for the variables [NOWHERE]"},
		"another core":        {"{name: mine, url: https://x/y, type: CoreProvider}", "the provider cluster-api is the only one of type CoreProvider"},
		"another type":        {"{name: cluster-api, url: https://x/y, type: AddonProvider}", "the only one of type CoreProvider"},
		"twice":               {"{name: a, url: https://x/y, type: AddonProvider}\n- {name: a, url: https://x/z, type: AddonProvider}", "entry 2 (a): entry 1 is of the same name and type: keep one"},
		"no map":              {"nonsense", "providers: json: cannot unmarshal string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := load(t, "c.yaml", "providers:\n- "+tc.entry+"\n", nil)
			_, err := c.Providers()
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), c.File()) {
				t.Errorf("error %v, want one with %q and the file", err, tc.want)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Provider{
		"cluster-api":         {Name: "cluster-api", Type: clusterctlv1.CoreProviderType},
		"bootstrap-a":         {Name: "a", Type: clusterctlv1.BootstrapProviderType},
		"control-plane-a":     {Name: "a", Type: clusterctlv1.ControlPlaneProviderType},
		"infrastructure-a":    {Name: "a", Type: clusterctlv1.InfrastructureProviderType},
		"ipam-a":              {Name: "a", Type: clusterctlv1.IPAMProviderType},
		"runtime-extension-a": {Name: "a", Type: clusterctlv1.RuntimeExtensionProviderType},
		"addon-a":             {Name: "a", Type: clusterctlv1.AddonProviderType},
		"a":                   {Name: "a"},
	} {
		if got := p.Label(); got != want {
			t.Errorf("%v has the label %s, want %s", p, got, want)
		}
	}
}

// bomb is a document whose aliases expand to 9^9 items.
func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i, before := range []string{"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"} {
		name := "a" + string(rune('1'+i))
		text += name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat("*"+before+", ", 9), ", ") + "]\n"
	}
	return text
}
