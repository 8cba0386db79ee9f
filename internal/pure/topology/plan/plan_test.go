// SPDX-License-Identifier: Apache-2.0

package plan

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
		"over three minors":                    {"v1.31.0", "v1.31.0", "v1.34.0", listed, "v1.31.4, v1.32.1, v1.33.3, v1.34.0; v1.34.0"},
		"over five, workers stop once":         {"v1.31.0", "v1.31.0", "v1.36.0", listed, "v1.31.4, v1.32.1, v1.33.3, v1.34.0, v1.35.0, v1.36.0; v1.34.0, v1.36.0"},
		"workers are behind already":           {"v1.33.3", "v1.31.0", "v1.36.0", listed, "v1.34.0, v1.35.0, v1.36.0; v1.34.0, v1.36.0"},
		"workers may stay no longer":           {"v1.34.0", "v1.31.0", "v1.36.0", listed, "v1.35.0, v1.36.0; v1.34.0, v1.36.0"},
		"builds in the order of the list":      {"v1.33.0+a", "v1.33.0+a", "v1.33.0+b", listed, "v1.33.0+b; v1.33.0+b"},
		"builds against the order of the list": {"v1.33.0+b", "v1.33.0+b", "v1.33.0+a", listed, "cannot compute an upgrade plan from v1.33.0+b to v1.33.0+a: set spec.topology.version to v1.33.0+b or a later one: a control plane does not go back"},
		"from a version not listed":            {"v1.32.0", "v1.32.0", "v1.33.3", listed, "v1.32.1, v1.33.3; v1.33.3"},
		"to a version not listed":              {"v1.32.1", "v1.32.1", "v1.33.1", "v1.32.1 v1.33.0", "cannot compute an upgrade plan from v1.32.1 to v1.33.1: set spec.topology.version to one that the ClusterClass lists in spec.kubernetesVersions: v1.32.1, v1.33.0"},
		"too far behind":                       {"v1.36.0", "v1.31.0", "v1.36.0", listed, "; v1.36.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := Way{tc.from, tc.workers, tc.to}
			s, err := FromClass(way, strings.Fields(tc.list))
			if err == nil {
				s, err = Complete(way, s)
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
