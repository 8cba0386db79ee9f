// SPDX-License-Identifier: Apache-2.0

package resourceset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// bound is a Cluster with a binding of those entries and failures.
func bound(name string, entries []addonsv1.ResourceSetBinding, failures ...Failure) Cluster {
	b := &addonsv1.ClusterResourceSetBinding{}
	b.Spec.Bindings = entries
	SetFailures(b, failures)
	return Cluster{Name: name, Binding: b}
}

func TestResourcesApplied(t *testing.T) {
	t.Parallel()
	done, open := []addonsv1.ResourceSetBinding{entry("s", applied("x"), applied("y"))}, []addonsv1.ResourceSetBinding{entry("s", applied("x"), pending("y"))}
	var full []addonsv1.ResourceSetBinding
	for i := range MaxSets {
		full = append(full, entry(fmt.Sprint(i)))
	}
	paused := bound("c1", open, Failure{Message: "the Cluster is paused"})
	paused.Paused = true
	refused := Failure{Set: "s", ResourceRef: ref("y"), Message: "Widget w: no"}
	tests := map[string]struct {
		status Status
		want   string
	}{
		"nothing is selected": {Status{}, "True Applied "},
		"all is applied":      {Status{Clusters: []Cluster{bound("c1", done), bound("c2", done)}}, "True Applied "},
		"something is not there": {
			Status{Missing: []addonsv1.ResourceRef{ref("y")}, Clusters: []Cluster{bound("c1", open)}},
			"False NotApplied ConfigMap y does not exist in namespace ns",
		},
		"a Secret of another type is reported first": {
			Status{WrongType: []addonsv1.ResourceRef{{Kind: "Secret", Name: "z"}}, Missing: []addonsv1.ResourceRef{ref("y")}},
			"False WrongSecretType * Secret z is not of type addons.cluster.x-k8s.io/resource-set: create it again with that type\n* ConfigMap y does not exist in namespace ns",
		},
		"a selector that is none":    {Status{Invalid: "bad"}, "False NotApplied spec.clusterSelector cannot be used: bad"},
		"the management cluster":     {Status{Failed: true}, "Unknown InternalError Reading or writing objects of the management cluster failed"},
		"no binding yet":             {Status{Clusters: []Cluster{{Name: "c1"}}}, "False NotApplied Cluster c1: waiting for its ClusterResourceSetBinding"},
		"no binding while paused":    {Status{Clusters: []Cluster{{Name: "c1", Paused: true}}}, "False NotApplied Cluster c1: no ClusterResourceSetBinding yet: it is paused"},
		"no entry yet":               {Status{Clusters: []Cluster{bound("c1", nil)}}, "False NotApplied Cluster c1: waiting for its turn"},
		"a binding that is full":     {Status{Clusters: []Cluster{bound("c1", full)}}, "False NotApplied Cluster c1: its ClusterResourceSetBinding is full: no more than 100 ClusterResourceSets can be applied to one Cluster"},
		"not applied yet":            {Status{Clusters: []Cluster{bound("c1", open)}}, "False NotApplied Cluster c1: ConfigMap y not applied yet"},
		"not connected":              {Status{Clusters: []Cluster{bound("c1", open, Failure{Message: "the Cluster is not connected"})}}, "False NotApplied Cluster c1: ConfigMap y not applied yet: the Cluster is not connected"},
		"paused":                     {Status{Clusters: []Cluster{paused}}, "False NotApplied Cluster c1: ConfigMap y not applied yet: it is paused"},
		"one object is refused":      {Status{Clusters: []Cluster{bound("c1", open, refused)}}, "False NotApplied Cluster c1: ConfigMap y is not applied: Widget w: no"},
		"a failure of another set":   {Status{Clusters: []Cluster{bound("c1", open, Failure{Set: "t", ResourceRef: ref("y"), Message: "no"})}}, "False NotApplied Cluster c1: ConfigMap y not applied yet"},
		"the same for many Clusters": {Status{Clusters: []Cluster{bound("c1", open, refused), bound("c2", done), bound("c3", open, refused), bound("c4", open, refused), bound("c5", open, refused)}}, "False NotApplied Cluster c1, c3, c4, ... (1 more): ConfigMap y is not applied: Widget w: no"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set("s", "x", "y")
			tc.status.Set = &s
			c := ResourcesApplied(tc.status)
			if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestAMessageIsBounded(t *testing.T) {
	t.Parallel()
	s := set("s", "x")
	status := Status{Set: &s}
	for i := range 300 {
		status.Clusters = append(status.Clusters, bound(fmt.Sprint(i), []addonsv1.ResourceSetBinding{entry("s", pending("x"))}, Failure{Set: "s", ResourceRef: ref("x"), Message: fmt.Sprint(i, strings.Repeat(" long", 1000))}))
	}
	if got := ResourcesApplied(status).Message; len(got) > 32768 || !strings.HasSuffix(got, "* and 290 more") {
		t.Errorf("%d bytes, ends in %q", len(got), got[max(0, len(got)-40):])
	}
}

func TestReportDeprecated(t *testing.T) {
	t.Parallel()
	done, open := []addonsv1.ResourceSetBinding{entry("s", applied("x"))}, []addonsv1.ResourceSetBinding{entry("s", pending("x"))}
	disconnected, refused := Failure{Message: "not connected"}, Failure{Set: "s", ResourceRef: ref("x"), Message: "no"}
	paused := bound("c", open, disconnected)
	paused.Paused = true
	tests := map[string]struct {
		status Status
		want   string
	}{
		"all is applied":                    {Status{Clusters: []Cluster{bound("c", done)}}, "True"},
		"the management cluster":            {Status{Failed: true}, "Unknown RetrievingResourceFailed: Reading or writing objects of the management cluster failed"},
		"a selector that is none":           {Status{Invalid: "bad"}, "False Warning ClusterMatchFailed: spec.clusterSelector cannot be used: bad"},
		"a Secret of another type":          {Status{WrongType: []addonsv1.ResourceRef{{Kind: "Secret", Name: "z"}}}, "False Warning WrongSecretType: Secret z is not of type addons.cluster.x-k8s.io/resource-set: create it again with that type"},
		"something is not there":            {Status{Missing: []addonsv1.ResourceRef{ref("x")}}, "False Warning RetrievingResourceFailed: ConfigMap x does not exist in namespace ns"},
		"no binding yet":                    {Status{Clusters: []Cluster{{Name: "c"}}}, "False Info ApplyFailed: Cluster c: waiting for its ClusterResourceSetBinding"},
		"not applied yet":                   {Status{Clusters: []Cluster{bound("c", open)}}, "False Info ApplyFailed: Cluster c: ConfigMap x not applied yet"},
		"paused":                            {Status{Clusters: []Cluster{paused}}, "False Info ApplyFailed: Cluster c: ConfigMap x not applied yet: it is paused"},
		"a failure of another set":          {Status{Clusters: []Cluster{bound("c", open, Failure{Set: "t", ResourceRef: ref("x"), Message: "no"})}}, "False Info ApplyFailed: Cluster c: ConfigMap x not applied yet"},
		"refused":                           {Status{Clusters: []Cluster{bound("c", open, refused)}}, "False Warning ApplyFailed: Cluster c: ConfigMap x is not applied: no"},
		"not connected":                     {Status{Clusters: []Cluster{bound("c", open, refused), bound("d", open, disconnected)}}, "False Error RemoteClusterClientFailed: * Cluster c: ConfigMap x is not applied: no\n* Cluster d: ConfigMap x not applied yet: not connected"},
		"not connected, and all is applied": {Status{Clusters: []Cluster{bound("c", done, disconnected)}}, "True"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set("s", "x")
			tc.status.Set = &s
			ReportDeprecated(tc.status, time.Unix(1, 0))
			if diff := cmp.Diff([]string{"ResourcesApplied " + tc.want}, builder.Deprecated(s.Status.Deprecated.V1Beta1.Conditions)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
