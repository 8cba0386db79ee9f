// SPDX-License-Identifier: Apache-2.0

package evolution

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/catalog/testdata/v1alpha2"
)

// History is what was released, and which versions of hooks were published
// and deprecated in the course of it. It outlives the hooks.
type History struct {
	// Releases are all releases in chronological order.
	Releases []Release `json:"releases"`

	// Hooks are by group/version/hook.
	Hooks map[string]Lifetime `json:"hooks"`
}

// Release is one release.
type Release struct {
	Name string `json:"name"`
	Date string `json:"date"`
}

// Lifetime is when a version of a hook was published, and when its removal was
// announced.
type Lifetime struct {
	Published  string       `json:"published"`
	Deprecated *Deprecation `json:"deprecated,omitempty"`
}

// Deprecation records in which release, and when, the removal of a version was
// announced.
type Deprecation struct {
	Since string `json:"since"`
	Date  string `json:"date"`
}

// support is how long a deprecated version stays: both of them.
var support = map[catalog.Track]struct{ months, releases int }{
	catalog.GA:    {12, 3},
	catalog.Beta:  {6, 2},
	catalog.Alpha: {0, 0},
}

// MayRemove checks the removal of a version of a hook against rule 4: it is nil
// if the version may be removed now. deprecated is when that was announced;
// releases is the number of releases since then, without the one that announced
// it.
func MayRemove(track catalog.Track, deprecated time.Time, releases int, now time.Time) error {
	if deprecated.IsZero() {
		return errors.New("it was never deprecated (rule 4)")
	}
	s := support[track]
	if until := deprecated.AddDate(0, s.months, 0); now.Before(until) {
		return fmt.Errorf("a deprecated %s version stays for %d months, until %s (rule 4)", track, s.months, until.Format(time.DateOnly))
	}
	if releases < s.releases {
		return fmt.Errorf("a deprecated %s version stays for %d releases, of which %d came (rule 4)", track, s.releases, releases)
	}
	return nil
}

// Check compares a catalog with the history: each hook that was ever published
// exists, unless rule 4 allows its removal, and each existing one is recorded
// with its deprecation. The error names every difference.
func (h History) Check(c *catalog.Catalog, now time.Time) error {
	var errs []error
	there := map[string]catalog.Descriptor{}
	for _, d := range c.Hooks() {
		there[d.String()] = d
		if _, ok := h.Hooks[d.String()]; !ok {
			errs = append(errs, fmt.Errorf("hook %s is not in the history: add when it was published", d))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Hooks)) {
		if d, ok := there[name]; ok {
			errs = append(errs, sameDeprecation(d, h.Hooks[name].Deprecated))
		} else if err := h.MayGo(name, now); err != nil {
			errs = append(errs, fmt.Errorf("hook %s is gone: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func sameDeprecation(d catalog.Descriptor, recorded *Deprecation) error {
	switch {
	case d.Deprecated == nil && recorded == nil:
		return nil
	case recorded == nil:
		return fmt.Errorf("hook %s is deprecated, but not in the history", d)
	case d.Deprecated == nil:
		return fmt.Errorf("hook %s was deprecated in %s and is not any more", d, recorded.Since)
	case d.Deprecated.Since != recorded.Since || d.Deprecated.Date != recorded.Date:
		return fmt.Errorf("hook %s is deprecated since %s (%s), but since %s (%s) in the history", d, d.Deprecated.Since, d.Deprecated.Date, recorded.Since, recorded.Date)
	}
	return nil
}

// MayGo holds the removal of a hook, by group/version/hook, to rule 4.
func (h History) MayGo(name string, now time.Time) error {
	track, err := trackOf(name)
	if err != nil {
		return err
	}
	d := h.Hooks[name].Deprecated
	if d == nil {
		return MayRemove(track, time.Time{}, 0, now)
	}
	date, err := time.Parse(time.DateOnly, d.Date)
	if err != nil {
		return fmt.Errorf("read when it was deprecated: %w", err)
	}
	at := slices.IndexFunc(h.Releases, func(r Release) bool { return r.Name == d.Since })
	if at < 0 {
		return fmt.Errorf("it was deprecated in %s, which is no release of the history", d.Since)
	}
	return MayRemove(track, date, len(h.Releases)-at-1, now)
}

// trackOf reads the version in group/version/hook.
func trackOf(name string) (catalog.Track, error) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return 0, fmt.Errorf("%q is not of the form group/version/hook", name)
	}
	return catalog.TrackOf(parts[1])
}

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
			if err := MayRemove(tc.track, day(t, tc.deprecated), tc.releases, day(t, tc.now)); err != nil {
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
	deprecated := func(since, date string) Lifetime {
		return Lifetime{Published: "2025-01-01", Deprecated: &Deprecation{Since: since, Date: date}}
	}
	releases := []Release{{Name: "v1.3.0", Date: "2026-06-01"}, {Name: "v1.4.0", Date: "2026-11-20"}, {Name: "v1.5.0", Date: "2027-03-01"}}
	with := func(more map[string]Lifetime) History {
		h := History{Releases: releases, Hooks: map[string]Lifetime{
			group + "v1alpha1/BeforeClusterUpgrade": deprecated("v1.4.0", "2026-11-20"),
			group + "v1alpha2/BeforeClusterUpgrade": {Published: "2026-11-20"},
		}}
		for name, l := range more {
			h.Hooks[name] = l
		}
		return h
	}
	tests := map[string]struct {
		history History
		want    []string
	}{
		"none":                 {with(nil), nil},
		"an alpha that may go": {with(map[string]Lifetime{"g/v1alpha1/Nap": deprecated("v1.4.0", "2026-11-20")}), nil},
		"not recorded": {History{}, []string{
			"hook " + group + "v1alpha1/BeforeClusterUpgrade is not in the history: add when it was published",
			"hook " + group + "v1alpha2/BeforeClusterUpgrade is not in the history: add when it was published",
		}},
		"gone too soon": {with(map[string]Lifetime{
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
		"another deprecation": {with(map[string]Lifetime{
			group + "v1alpha1/BeforeClusterUpgrade": deprecated("v1.3.0", "2026-06-01"),
			group + "v1alpha2/BeforeClusterUpgrade": deprecated("v1.4.0", "2026-11-20"),
		}), []string{
			"hook " + group + "v1alpha1/BeforeClusterUpgrade is deprecated since v1.4.0 (2026-11-20), but since v1.3.0 (2026-06-01) in the history",
			"hook " + group + "v1alpha2/BeforeClusterUpgrade was deprecated in v1.4.0 and is not any more",
		}},
		"a deprecation that is not recorded": {with(map[string]Lifetime{group + "v1alpha1/BeforeClusterUpgrade": {Published: "2025-01-01"}}), []string{
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
