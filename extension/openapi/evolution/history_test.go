// SPDX-License-Identifier: Apache-2.0

package evolution_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
	"github.com/capstan-dev/capstan/extension/openapi/evolution"
)

func day(t *testing.T, s string) time.Time {
	t.Helper()
	if s == "" {
		return time.Time{}
	}
	d, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestADeprecatedVersionStaysForAWhile(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		track      catalog.Track
		deprecated string
		releases   int
		now        string
		want       string
	}{
		"GA after both":                 {catalog.GA, "2026-01-15", 3, "2027-01-15", ""},
		"GA a day early":                {catalog.GA, "2026-01-15", 9, "2027-01-14", "a deprecated GA version stays for 12 months, until 2027-01-15 (rule 4)"},
		"GA a release early":            {catalog.GA, "2026-01-15", 2, "2029-01-15", "a deprecated GA version stays for 3 releases, of which 2 came (rule 4)"},
		"beta after both":               {catalog.Beta, "2026-01-15", 2, "2026-07-15", ""},
		"beta a day early":              {catalog.Beta, "2026-01-15", 2, "2026-07-14", "a deprecated beta version stays for 6 months, until 2026-07-15 (rule 4)"},
		"beta a release early":          {catalog.Beta, "2026-01-15", 1, "2027-07-15", "a deprecated beta version stays for 2 releases, of which 1 came (rule 4)"},
		"alpha at once":                 {catalog.Alpha, "2026-01-15", 0, "2026-01-15", ""},
		"alpha that was not deprecated": {catalog.Alpha, "", 0, "2026-01-15", "it was never deprecated (rule 4)"},
		"GA that was not deprecated":    {catalog.GA, "", 9, "2036-01-15", "it was never deprecated (rule 4)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := evolution.MayRemove(tc.track, day(t, tc.deprecated), tc.releases, day(t, tc.now)); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestHistoryNamesEveryDifference(t *testing.T) {
	t.Parallel()
	only := func(d *catalog.Deprecation) catalog.Version {
		v := catalog.V1Alpha1()
		v.Hooks = v.Hooks[3:4] // BeforeClusterUpgrade
		v.Hooks[0].Deprecated = d
		return v
	}
	c, err := catalog.New(only(&catalog.Deprecation{Since: "v1.4.0", Date: "2026-11-20"}), v1alpha2.Version())
	if err != nil {
		t.Fatal(err)
	}
	const group = "hooks.runtime.cluster.x-k8s.io/"
	deprecated := func(since, date string) evolution.Lifetime {
		return evolution.Lifetime{Published: "2025-01-01", Deprecated: &evolution.Deprecation{Since: since, Date: date}}
	}
	releases := []evolution.Release{{Name: "v1.3.0", Date: "2026-06-01"}, {Name: "v1.4.0", Date: "2026-11-20"}, {Name: "v1.5.0", Date: "2027-03-01"}}
	with := func(more map[string]evolution.Lifetime) evolution.History {
		h := evolution.History{Releases: releases, Hooks: map[string]evolution.Lifetime{
			group + "v1alpha1/BeforeClusterUpgrade": deprecated("v1.4.0", "2026-11-20"),
			group + "v1alpha2/BeforeClusterUpgrade": {Published: "2026-11-20"},
		}}
		for name, l := range more {
			h.Hooks[name] = l
		}
		return h
	}
	tests := map[string]struct {
		history evolution.History
		want    []string
	}{
		"none":                 {with(nil), nil},
		"an alpha that may go": {with(map[string]evolution.Lifetime{"g/v1alpha1/Nap": deprecated("v1.4.0", "2026-11-20")}), nil},
		"not recorded": {evolution.History{}, []string{
			"hook " + group + "v1alpha1/BeforeClusterUpgrade is not in the history: add when it was published",
			"hook " + group + "v1alpha2/BeforeClusterUpgrade is not in the history: add when it was published",
		}},
		"gone too soon": {with(map[string]evolution.Lifetime{
			"g/v1/Nap":      deprecated("v1.3.0", "2026-06-01"),
			"g/v1beta1/Nap": deprecated("v1.4.0", "2026-11-20"),
			"g/v1/Walk":     {Published: "2025-01-01"},
			"g/v2/Swim":     deprecated("v1.2.0", "2025-01-01"),
			"g/v2/Run":      deprecated("v1.3.0", "June"),
			"Rest":          deprecated("v1.3.0", "2026-06-01"),
		}), []string{
			`hook Rest is gone: "Rest" is not of the form group/version/hook`,
			"hook g/v1/Nap is gone: a deprecated GA version stays for 12 months, until 2027-06-01 (rule 4)",
			"hook g/v1/Walk is gone: it was never deprecated (rule 4)",
			"hook g/v1beta1/Nap is gone: a deprecated beta version stays for 6 months, until 2027-05-20 (rule 4)",
			`hook g/v2/Run is gone: read when it was deprecated: parsing time "June" as "2006-01-02": cannot parse "June" as "2006"`,
			"hook g/v2/Swim is gone: it was deprecated in v1.2.0, which is no release of the history",
		}},
		"another deprecation": {with(map[string]evolution.Lifetime{
			group + "v1alpha1/BeforeClusterUpgrade": deprecated("v1.3.0", "2026-06-01"),
			group + "v1alpha2/BeforeClusterUpgrade": deprecated("v1.4.0", "2026-11-20"),
		}), []string{
			"hook " + group + "v1alpha1/BeforeClusterUpgrade is deprecated since v1.4.0 (2026-11-20), but since v1.3.0 (2026-06-01) in the history",
			"hook " + group + "v1alpha2/BeforeClusterUpgrade was deprecated in v1.4.0 and is not any more",
		}},
		"a deprecation that is not recorded": {with(map[string]evolution.Lifetime{group + "v1alpha1/BeforeClusterUpgrade": {Published: "2025-01-01"}}), []string{
			"hook " + group + "v1alpha1/BeforeClusterUpgrade is deprecated, but not in the history",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			if err := tc.history.Check(c, day(t, "2027-03-10")); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
