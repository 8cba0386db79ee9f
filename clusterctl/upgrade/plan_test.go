// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/install"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/repository"
)

const (
	core  = clusterctlv1.CoreProviderType
	infra = clusterctlv1.InfrastructureProviderType
)

// installed is a provider in a namespace of its name. series are its release series, as
// "1.10 v1beta1", and versions its releases.
func installed(label string, t clusterctlv1.ProviderType, version string, versions []string, series ...string) Releases {
	name := strings.TrimPrefix(strings.TrimPrefix(label, "infrastructure-"), "bootstrap-")
	r := Releases{Provider: inventory.Object(label, name, t, version, name+"-system"), Versions: versions, Metadata: &clusterctlv1.Metadata{}}
	for _, s := range series {
		minor, contract, _ := strings.Cut(s, " ")
		m := clusterctlv1.ReleaseSeries{Contract: contract}
		for i, n := range strings.Split(minor, ".") {
			v := int32(0)
			for _, d := range n {
				v = v*10 + int32(d-'0')
			}
			if i == 0 {
				m.Major = v
			} else {
				m.Minor = v
			}
		}
		r.Metadata.ReleaseSeries = append(r.Metadata.ReleaseSeries, m)
	}
	return r
}

func capi(version string, versions ...string) Releases {
	return installed("cluster-api", core, version, versions, "1.9 v1beta1", "1.10 v1beta1", "1.11 v1beta2", "1.14 v1beta2", "1.15 v1beta2", "2.0 v1beta3")
}

func aws(version string, versions ...string) Releases {
	return installed("infrastructure-aws", infra, version, versions, "2.9 v1beta1", "2.10 v1beta1", "3.0 v1beta2", "4.0 v1beta3")
}

func builtIn() Releases {
	return Releases{Provider: inventory.Object("cluster-api", "cluster-api", core, "v1.14.2", "capstan-system")}
}

// told is a plan in lines.
func told(plans ...Plan) (lines []string) {
	for _, p := range plans {
		line := p.Contract
		if !p.Applicable {
			line += " (not applicable)"
		}
		for _, i := range p.Items {
			line += ", " + i.Provider.Name + " " + i.Provider.Version
			if i.Next != "" {
				line += " to " + i.Next
			} else {
				line += " stays: " + strings.Split(i.Note, ":")[0]
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestPlans(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		all  []Releases
		want []string
	}{
		"the newest release of each": {
			[]Releases{capi("v1.11.0", "v1.11.0", "v1.14.1", "v1.14.0"), aws("v3.0.0", "v2.9.0", "v3.0.1", "v3.0.0")},
			[]string{"v1beta2, cluster-api v1.11.0 to v1.14.1, infrastructure-aws v3.0.0 to v3.0.1"},
		},
		"no pre-release, and nothing that is no version": {
			[]Releases{capi("v1.11.0", "v1.11.0", "v1.14.0-rc.1", "nightly"), aws("v3.0.0", "v3.0.0")},
			[]string{"v1beta2, cluster-api v1.11.0 stays: already up to date, infrastructure-aws v3.0.0 stays: already up to date"},
		},
		"from a pre-release to its release": {
			[]Releases{capi("v1.11.0-rc.1", "v1.11.0-rc.1", "v1.11.0")},
			[]string{"v1beta2, cluster-api v1.11.0-rc.1 to v1.11.0"},
		},
		"from the contract before, within it and beyond": {
			[]Releases{capi("v1.9.0", "v1.9.0", "v1.10.4", "v1.11.1"), aws("v2.9.0", "v2.10.0", "v3.0.0")},
			[]string{"v1beta1 (not applicable), cluster-api v1.9.0 to v1.10.4, infrastructure-aws v2.9.0 to v2.10.0", "v1beta2, cluster-api v1.9.0 to v1.11.1, infrastructure-aws v2.9.0 to v3.0.0"},
		},
		"a provider of the contract before works with the newest core": {
			[]Releases{capi("v1.10.0", "v1.10.0", "v1.11.1"), aws("v2.10.0", "v2.10.0")},
			[]string{"v1beta1 (not applicable), cluster-api v1.10.0 stays: already up to date, infrastructure-aws v2.10.0 stays: already up to date", "v1beta2, cluster-api v1.10.0 to v1.11.1, infrastructure-aws v2.10.0 stays: already up to date"},
		},
		"a later contract is shown if all come along": {
			[]Releases{capi("v1.11.0", "v1.11.0", "v2.0.0"), aws("v3.0.0", "v3.0.0", "v4.0.0")},
			[]string{"v1beta2, cluster-api v1.11.0 stays: already up to date, infrastructure-aws v3.0.0 stays: already up to date", "v1beta3 (not applicable), cluster-api v1.11.0 to v2.0.0, infrastructure-aws v3.0.0 to v4.0.0"},
		},
		"and left out if one would be left behind": {
			[]Releases{capi("v1.11.0", "v1.11.0", "v2.0.0"), aws("v3.0.0", "v3.0.0")},
			[]string{"v1beta2, cluster-api v1.11.0 stays: already up to date, infrastructure-aws v3.0.0 stays: already up to date"},
		},
		"what is built in goes with the program": {
			[]Releases{builtIn(), aws("v2.10.0", "v3.0.0", "v4.0.0")},
			[]string{"v1beta2, cluster-api v1.14.2 stays: built in, infrastructure-aws v2.10.0 to v3.0.0"},
		},
		"of a provider that is not configured nothing is known": {
			[]Releases{builtIn(), {Provider: aws("v1.0.0").Provider, Unknown: "not known"}},
			[]string{"v1beta2, cluster-api v1.14.2 stays: built in, infrastructure-aws v1.0.0 stays: not known"},
		},
		"nothing without a core": {[]Releases{aws("v2.10.0", "v3.0.0")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, told(Plans(tc.all)...)); diff != "" {
				t.Errorf("plans (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamedUpgrades(t *testing.T) {
	t.Parallel()
	all := []Releases{capi("v1.11.0"), aws("v2.10.0")}
	old := []Releases{capi("v1.10.0"), aws("v2.10.0")}
	third := append([]Releases{installed("infrastructure-aws", infra, "v4.0.0", nil, "4.0 v1beta3")}, capi("v1.14.0"))
	twice := append([]Releases{{Provider: inventory.Object("infrastructure-aws", "aws", infra, "v1.0.0", "other")}}, all...)
	for name, tc := range map[string]struct {
		all       []Releases
		selection install.Selection
		want, err string
	}{
		"one":                        {all, install.Selection{infra: {"aws:v3.0.0"}}, "v1beta2, cluster-api v1.11.0 stays: not named, infrastructure-aws v2.10.0 to v3.0.0", ""},
		"with its namespace":         {twice, install.Selection{infra: {"aws-system/aws:v3.0.0"}}, "v1beta2, infrastructure-aws v1.0.0 stays: not named, cluster-api v1.11.0 stays: not named, infrastructure-aws v2.10.0 to v3.0.0", ""},
		"all":                        {old, install.Selection{infra: {"aws:v3.0.0"}, core: {"cluster-api:v1.11.0"}}, "v1beta2, cluster-api v1.10.0 to v1.11.0, infrastructure-aws v2.10.0 to v3.0.0", ""},
		"to the version that it has": {all, install.Selection{infra: {"aws:v2.10.0"}}, "v1beta2, cluster-api v1.11.0 stays: not named, infrastructure-aws v2.10.0 stays: already up to date", ""},
		"three minors":               {all, install.Selection{core: {"cluster-api:v1.14.0"}}, "v1beta2, cluster-api v1.11.0 to v1.14.0, infrastructure-aws v2.10.0 stays: not named", ""},

		"four minors":               {all, install.Selection{core: {"cluster-api:v1.15.0"}}, "", "cluster-api cannot go from v1.11.0 to v1.15.0 at once: at most 3 minor versions can be passed, go to one up to v1.14 first"},
		"no version":                {all, install.Selection{infra: {"aws"}}, "", "infrastructure-aws without a version: give the one to go to, as aws:v1.2.3"},
		"a version of another form": {all, install.Selection{infra: {"aws:latest"}}, "", `InfrastructureProvider "aws:latest": version "latest" is not semantic: give one such as v1.2.3`},
		"back":                      {all, install.Selection{infra: {"aws:v2.9.0"}}, "", "infrastructure-aws is installed in version v2.10.0: it cannot go back to v2.9.0"},
		"not installed":             {all, install.Selection{infra: {"awz:v3.0.0"}}, "", `infrastructure-awz is not installed: did you mean "aws"?`},
		"not in that namespace":     {all, install.Selection{infra: {"other/aws:v3.0.0"}}, "", "infrastructure-aws is not installed in namespace other"},
		"ambiguous":                 {twice, install.Selection{infra: {"aws:v3.0.0"}}, "", "infrastructure-aws is installed 2 times: say which, as NAMESPACE/aws"},
		"twice":                     {all, install.Selection{infra: {"aws:v3.0.0", "aws:v2.10.0"}}, "", "infrastructure-aws is named twice"},
		"built in":                  {[]Releases{builtIn()}, install.Selection{core: {"cluster-api:v1.15.0"}}, "", "cluster-api is built into the management cluster"},
		"another would not work":    {old, install.Selection{infra: {"aws:v3.0.0"}}, "", `cluster-api v1.10.0 keeps the contract "v1beta1" and would not work with v1beta2: name a version of it, too`},
		"one that is too new":       {third, install.Selection{core: {"cluster-api:v1.15.0"}}, "", `infrastructure-aws v4.0.0 keeps the contract "v1beta3" and would not work with v1beta2`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := Named(tc.all, tc.selection)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.want}, told(plan)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPlanIsChosenByItsContract(t *testing.T) {
	t.Parallel()
	plans := Plans([]Releases{capi("v1.11.0", "v1.11.0", "v1.15.0", "v2.0.0"), aws("v3.0.0", "v4.0.0")})
	for contract, want := range map[string]string{
		"v1beta2": "cluster-api cannot go from v1.11.0 to v1.15.0 at once",
		"v1beta3": "contract v1beta3 is newer than what this program knows, v1beta2",
		"v1":      "there is no upgrade to the contract v1: there are v1beta2, v1beta3",
	} {
		if _, err := Allowed(plans, contract); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", contract, err, want)
		}
	}
}

// unpublished has a tag without files, which a release has before it is published.
type unpublished struct{ releases }

func (unpublished) Versions(context.Context, install.Wanted) ([]string, error) {
	return []string{"v1.11.0", "v1.12.0", "v1.13.0"}, nil
}

func (u unpublished) Metadata(ctx context.Context, w install.Wanted, version string) (*clusterctlv1.Metadata, error) {
	if version == "v1.13.0" {
		return nil, &repository.NotFoundError{Version: version, Name: repository.MetadataFile}
	}
	return u.releases.Metadata(ctx, w, version)
}

func TestReadLeavesOutReleasesWithoutFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.init(t); err != nil {
		t.Fatal(err)
	}
	all, err := (&Upgrader{Cluster: apply.NewWithClient(w, kinds{}), Source: unpublished{}}).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"v1beta2, cluster-api v1.11.0 to v1.12.0, bootstrap-kubeadm v1.11.0 to v1.12.0, control-plane-kubeadm v1.11.0 to v1.12.0, infrastructure-aws v1.11.0 to v1.12.0"}
	if diff := cmp.Diff(want, told(Plans(all)...)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}
