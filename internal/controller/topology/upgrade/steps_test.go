// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"strings"
	"testing"
)

func TestSteps(t *testing.T) {
	t.Parallel()
	const listed = "v1.30.2 v1.31.0 v1.31.4 v1.32.1 v1.33.0+a v1.33.0+b v1.33.3 v1.34.0 v1.35.0 v1.36.0"
	for name, tc := range map[string]struct {
		from, workers, to, list string
		want                    string
	}{
		"nothing to do":                        {"v1.34.0", "v1.34.0", "v1.34.0", "", "; "},
		"no workers":                           {"v1.34.0", "", "v1.35.0", "", "v1.35.0; "},
		"the next minor":                       {"v1.34.0", "v1.34.0", "v1.35.0", "", "v1.35.0; v1.35.0"},
		"a patch":                              {"v1.34.0", "v1.34.0", "v1.34.2", "", "v1.34.2; v1.34.2"},
		"another build":                        {"v1.34.0+a", "v1.34.0+a", "v1.34.0+b", "", "v1.34.0+b; v1.34.0+b"},
		"workers alone":                        {"v1.34.0", "v1.33.0", "v1.34.0", "", "; v1.34.0"},
		"two minors":                           {"v1.34.0", "v1.34.0", "v1.36.0", "", "cannot compute an upgrade plan from v1.34.0 to v1.36.0: list the versions on the way in spec.kubernetesVersions of the ClusterClass"},
		"back":                                 {"v1.34.2", "v1.34.2", "v1.34.0", "", "cannot compute an upgrade plan from v1.34.2 to v1.34.0: set spec.topology.version to v1.34.2 or a later one: a control plane does not go back"},
		"over three minors":                    {"v1.31.0", "v1.31.0", "v1.34.0", listed, "v1.32.1, v1.33.3, v1.34.0; v1.34.0"},
		"over five, workers stop once":         {"v1.31.0", "v1.31.0", "v1.36.0", listed, "v1.32.1, v1.33.3, v1.34.0, v1.35.0, v1.36.0; v1.34.0, v1.36.0"},
		"workers are behind already":           {"v1.33.3", "v1.31.0", "v1.36.0", listed, "v1.34.0, v1.35.0, v1.36.0; v1.34.0, v1.36.0"},
		"workers may stay no longer":           {"v1.34.0", "v1.31.0", "v1.36.0", listed, "v1.35.0, v1.36.0; v1.34.0, v1.36.0"},
		"builds in the order of the list":      {"v1.33.0+a", "v1.33.0+a", "v1.33.0+b", listed, "v1.33.0+b; v1.33.0+b"},
		"builds against the order of the list": {"v1.33.0+b", "v1.33.0+b", "v1.33.0+a", listed, "cannot compute an upgrade plan from v1.33.0+b to v1.33.0+a: set spec.topology.version to v1.33.0+b or a later one: a control plane does not go back"},
		"from a version not listed":            {"v1.32.0", "v1.32.0", "v1.33.3", listed, "v1.33.3; v1.33.3"},
		"to a version not listed":              {"v1.32.1", "v1.32.1", "v1.33.1", "v1.32.1 v1.33.0", "cannot compute an upgrade plan from v1.32.1 to v1.33.1: set spec.topology.version to one that the ClusterClass lists in spec.kubernetesVersions: v1.32.1, v1.33.0"},
		"too far behind":                       {"v1.36.0", "v1.31.0", "v1.36.0", listed, "; v1.36.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := Way{tc.from, tc.workers, tc.to}
			s, err := StepsFromClass(way, strings.Fields(tc.list))
			if err == nil {
				s, err = CompleteSteps(way, s)
			}
			got := strings.Join(s.ControlPlane, ", ") + "; " + strings.Join(s.Workers, ", ")
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestStepsOfAClassAreUpstreams has what upstream v1.14 computes.
func TestStepsOfAClassAreUpstreams(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ list, from, to, want string }{
		{"v1.31.0", "v1.31.0", "v1.31.0", ""},
		{"v1.31.0 v1.32.0 v1.32.1", "v1.31.0", "v1.32.0", "v1.32.0"},
		{"v1.35.1 v1.35.2", "v1.35.1", "v1.35.2", "v1.35.2"},
		{"v1.35.1 v1.35.2 v1.35.3", "v1.35.1", "v1.35.3", "v1.35.3"},
		{"v1.35.1 v1.35.2 v1.35.3", "v1.35.1", "v1.35.2", "v1.35.2"},
		{"v1.35.1 v1.35.4 v1.36.1", "v1.35.1", "v1.36.1", "v1.36.1"},
		{"v1.31.0 v1.32.0 v1.33.0", "v1.31.0", "v1.33.0", "v1.32.0 v1.33.0"},
		{"v1.31.0 v1.31.1 v1.32.0 v1.32.2 v1.32.3 v1.33.0 v1.33.1", "v1.31.0", "v1.33.1", "v1.32.3 v1.33.1"},
		{"v1.31.0 v1.31.1 v1.32.0-alpha.0 v1.32.0-alpha.1 v1.32.0-alpha.2 v1.33.0 v1.33.1", "v1.31.0", "v1.33.1", "v1.32.0-alpha.2 v1.33.1"},
		{"v1.31.0 v1.31.1 v1.32.0+foo.1-bar.1 v1.32.0+foo.2-bar.1 v1.32.0+foo.2-bar.2 v1.33.0 v1.33.1", "v1.31.0", "v1.33.1", "v1.32.0+foo.2-bar.2 v1.33.1"},
		{"v1.31.0+a v1.31.0+b v1.31.0+c v1.31.1+a v1.32.0+a v1.32.0+b v1.32.0+c v1.33.0+b v1.33.1+a v1.33.1+b v1.33.1+c", "v1.31.0+b", "v1.33.1+b", "v1.32.0+c v1.33.1+b"},
		{"v1.31.1 v1.32.0 v1.33.0", "v1.31.0", "v1.33.0", "v1.32.0 v1.33.0"},
		{"v1.31.0 v1.32.0 v1.33.0", "v1.31.2", "v1.33.0", "v1.32.0 v1.33.0"},
		{"v1.32.0 v1.33.0", "v1.30.2", "v1.33.0", "v1.32.0 v1.33.0"}, // Complete refuses it
	} {
		s, err := StepsFromClass(Way{ControlPlane: tc.from, Target: tc.to}, strings.Fields(tc.list))
		if got := strings.Join(s.ControlPlane, " "); err != nil || got != tc.want {
			t.Errorf("from %s to %s with %s: got %q, %v, want %q", tc.from, tc.to, tc.list, got, err, tc.want)
		}
	}
}

// TestComplete validates steps that are given.
func TestComplete(t *testing.T) {
	t.Parallel()
	const (
		cp      = "invalid ControlPlane upgrade plan: item "
		workers = "invalid workers upgrade plan: "
		long    = "v1.33.0 v1.34.0 v1.35.0 v1.36.0"
	)
	for name, tc := range map[string]struct {
		from, workers, to string
		steps, their      string
		want              string
	}{
		"minor by minor":                 {"v1.34.3", "v1.34.3", "v1.36.0", "v1.35.2 v1.36.0", "", "v1.36.0"},
		"patch by patch":                 {"v1.34.3", "v1.34.3", "v1.35.1", "v1.34.9 v1.35.0 v1.35.1", "", "v1.35.1"},
		"from a release candidate":       {"v1.36.0-rc.1", "", "v1.36.0", "v1.36.0", "", ""},
		"builds in any order":            {"v1.34.0+b", "", "v1.34.0+a", "v1.34.0+a", "", ""},
		"there already":                  {"v1.36.0", "v1.36.0", "v1.36.0", "", "", ""},
		"there already, yet a step":      {"v1.36.0", "", "v1.36.0", "v1.36.0", "", "invalid ControlPlane upgrade plan; control plane is already at the desired version"},
		"the same version again":         {"v1.35.0", "", "v1.36.0", "v1.35.0 v1.36.0", "", cp + "0; version v1.35.0 must be greater than v1.35.0"},
		"a minor version is left out":    {"v1.34.3", "", "v1.36.0", "v1.36.0", "", cp + "0; expecting a version with minor 34 or 35, found version v1.36.0"},
		"another major":                  {"v1.34.3", "", "v2.34.0", "v2.34.0", "", cp + "0; expecting a version with minor 34 or 35, found version v2.34.0"},
		"back and forth":                 {"v1.34.3", "", "v1.35.0", "v1.35.1 v1.35.0", "", cp + "1; version v1.35.0 must be greater than v1.35.1"},
		"no steps":                       {"v1.34.3", "", "v1.35.0", "", "", "control plane upgrade plan must end with version v1.35.0, ends with none instead"},
		"a step too far":                 {"v1.34.3", "", "v1.35.0", "v1.35.0 v1.35.1", "", "control plane upgrade plan must end with version v1.35.0, ends with v1.35.1 instead"},
		"a step that is no version":      {"v1.34.3", "", "v1.35.0", "v1.35", "", cp + `0; "v1.35" is no version such as v1.36.0`},
		"a step without its letter":      {"v1.34.3", "", "v1.35.0", "1.35.0", "", cp + `0; "1.35.0" is no version such as v1.36.0`},
		"from nowhere":                   {"", "", "v1.35.0", "", "", `"" is no version such as v1.36.0`},
		"some of the steps":              {"v1.32.0", "v1.32.0", "v1.36.0", long, "v1.34.0 v1.36.0", "v1.34.0, v1.36.0"},
		"first to where the plane is":    {"v1.32.0", "v1.31.0", "v1.36.0", long, "v1.32.0 v1.35.0 v1.36.0", "v1.32.0, v1.35.0, v1.36.0"},
		"left to us":                     {"v1.32.0", "v1.31.0", "v1.36.0", long, "", "v1.34.0, v1.36.0"},
		"the last of a minor version":    {"v1.33.0", "v1.31.0", "v1.35.0", "v1.34.0 v1.34.5 v1.35.0", "", "v1.34.5, v1.35.0"},
		"no workers":                     {"v1.32.0", "", "v1.36.0", long, "v1.36.0", "invalid worker upgrade plan; there are no workers or workers already at the desired version"},
		"workers that are there":         {"v1.35.0", "v1.36.0", "v1.36.0", "v1.36.0", "v1.36.0", "invalid worker upgrade plan; there are no workers or workers already at the desired version"},
		"no machine at the version":      {"v1.32.0", "v1.32.0", "v1.36.0", long, "v1.34.1 v1.35.1 v1.36.0", workers + "versions v1.34.1,v1.35.1 doesn't match any versions in the control plane upgrade plan nor the control plane version"},
		"too far at once":                {"v1.32.0", "v1.31.0", "v1.36.0", long, "v1.35.0 v1.36.0", workers + "with the control plane at v1.35.0, workers at v1.31.0 would be more than 3 minor versions behind"},
		"not to the end":                 {"v1.32.0", "v1.32.0", "v1.36.0", long, "v1.34.0", "workers upgrade plan must end with version v1.36.0, ends with v1.34.0 instead"},
		"backwards":                      {"v1.34.0", "v1.34.0", "v1.36.0", "v1.35.0 v1.36.0", "v1.34.0 v1.36.0", workers + "item 0; version v1.34.0 must be greater than v1.34.0"},
		"with a step that is no version": {"v1.34.0", "v1.34.0", "v1.35.0", "v1.35.0", "latest", workers + `item 0; "latest" is no version such as v1.36.0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := CompleteSteps(Way{tc.from, tc.workers, tc.to}, Steps{strings.Fields(tc.steps), strings.Fields(tc.their)})
			got := strings.Join(s.Workers, ", ")
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		workers, want string
	}{
		"no workers":              {"", ""},
		"all are there":           {"v1.34.0 v1.34.0", "v1.34.0"},
		"the lowest":              {"v1.34.0 v1.33.1 v1.33.0 v1.33.2", "v1.33.0"},
		"by number":               {"v1.33.10 v1.33.9", "v1.33.9"},
		"another build":           {"v1.34.0 v1.34.0+a", "v1.34.0+a"},
		"what is past the target": {"v1.35.0", "v1.34.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := NewWay("v1.34.0", strings.Fields(tc.workers), "v1.34.0"); got.Workers != tc.want {
				t.Errorf("got %q, want %q", got.Workers, tc.want)
			}
		})
	}
}
