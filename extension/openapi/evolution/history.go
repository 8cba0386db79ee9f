// SPDX-License-Identifier: Apache-2.0

package evolution

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/extension/catalog"
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
