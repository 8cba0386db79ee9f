// SPDX-License-Identifier: Apache-2.0

package resourceset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func cluster(labels map[string]string) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Labels: labels}}
}

// set selects a=b.
func set(name string, refs ...string) addonsv1.ClusterResourceSet {
	s := addonsv1.ClusterResourceSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	s.Spec.ClusterSelector.MatchLabels = map[string]string{"a": "b"}
	for _, r := range refs {
		s.Spec.Resources = append(s.Spec.Resources, ref(r))
	}
	return s
}

func ref(name string) addonsv1.ResourceRef {
	return addonsv1.ResourceRef{Kind: "ConfigMap", Name: name}
}

func entry(set string, resources ...addonsv1.ResourceBinding) addonsv1.ResourceSetBinding {
	return addonsv1.ResourceSetBinding{ClusterResourceSetName: set, Resources: resources}
}

func applied(name string) addonsv1.ResourceBinding {
	return addonsv1.ResourceBinding{ResourceRef: ref(name), Hash: "h", Applied: new(true)}
}

func pending(name string) addonsv1.ResourceBinding {
	return addonsv1.ResourceBinding{ResourceRef: ref(name), Applied: new(false)}
}

func TestEntries(t *testing.T) {
	t.Parallel()
	deleted := set("s", "x")
	deleted.DeletionTimestamp = &metav1.Time{}
	*deleted.DeletionTimestamp = metav1.Unix(1, 0)
	all := set("s", "x")
	all.Spec.ClusterSelector = metav1.LabelSelector{}
	yes, no := map[string]string{"a": "b"}, map[string]string{"a": "c"}
	tests := map[string]struct {
		labels map[string]string
		sets   []addonsv1.ClusterResourceSet
		before []addonsv1.ResourceSetBinding
		want   []addonsv1.ResourceSetBinding
	}{
		"one that selects":                                    {yes, []addonsv1.ClusterResourceSet{set("s", "x", "y")}, nil, []addonsv1.ResourceSetBinding{entry("s", pending("x"), pending("y"))}},
		"one that does not":                                   {no, []addonsv1.ClusterResourceSet{set("s", "x")}, nil, nil},
		"an empty selector selects nothing":                   {yes, []addonsv1.ClusterResourceSet{all}, nil, nil},
		"in the order of names":                               {yes, []addonsv1.ClusterResourceSet{set("b"), set("a")}, nil, []addonsv1.ResourceSetBinding{entry("a"), entry("b")}},
		"a resource written twice counts once":                {yes, []addonsv1.ClusterResourceSet{set("s", "x", "x")}, nil, []addonsv1.ResourceSetBinding{entry("s", pending("x"))}},
		"what is known is kept, in the new order":             {yes, []addonsv1.ClusterResourceSet{set("s", "y", "x")}, []addonsv1.ResourceSetBinding{entry("s", applied("x"), applied("z"))}, []addonsv1.ResourceSetBinding{entry("s", pending("y"), applied("x"))}},
		"one that no longer selects, but has applied":         {no, []addonsv1.ClusterResourceSet{set("s", "x")}, []addonsv1.ResourceSetBinding{entry("s", applied("x"))}, []addonsv1.ResourceSetBinding{entry("s", applied("x"))}},
		"one that no longer selects, and has applied nothing": {no, []addonsv1.ClusterResourceSet{set("s", "x")}, []addonsv1.ResourceSetBinding{entry("s", pending("x"))}, nil},
		"one that is being deleted":                           {yes, []addonsv1.ClusterResourceSet{deleted}, []addonsv1.ResourceSetBinding{entry("s", applied("x"))}, nil},
		"one that is gone":                                    {yes, nil, []addonsv1.ResourceSetBinding{entry("s", applied("x"))}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Entries(cluster(tc.labels), tc.sets, tc.before)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestABindingHoldsAsManyAsItCan(t *testing.T) {
	t.Parallel()
	sets, before := []addonsv1.ClusterResourceSet{set("a-former", "x")}, []addonsv1.ResourceSetBinding{entry("a-former", applied("x"))}
	sets[0].Spec.ClusterSelector.MatchLabels["a"] = "c"
	for i := range MaxSets + 1 {
		sets = append(sets, set(fmt.Sprintf("s%03d", i), "x"))
	}
	got := Entries(cluster(map[string]string{"a": "b"}), sets, before)
	if len(got) != MaxSets || got[0].ClusterResourceSetName != "s000" || got[MaxSets-1].ClusterResourceSetName != "s099" {
		t.Errorf("%d entries, from %s to %s", len(got), got[0].ClusterResourceSetName, got[len(got)-1].ClusterResourceSetName)
	}
}

func TestFailuresAreWrittenAndRead(t *testing.T) {
	t.Parallel()
	b := &addonsv1.ClusterResourceSetBinding{}
	want := []Failure{{Message: "not connected"}, {Set: "a", ResourceRef: ref("x"), Message: "1"}, {Set: "b", ResourceRef: ref("x"), Message: "2"}}
	SetFailures(b, []Failure{want[2], want[0], want[1]})
	if diff := cmp.Diff(want, Failures(b)); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	SetFailures(b, nil)
	if len(b.Annotations) != 0 {
		t.Errorf("annotations %v", b.Annotations)
	}
	var many []Failure
	for i := range 1000 {
		many = append(many, Failure{Set: fmt.Sprint(i), ResourceRef: ref("x"), Message: strings.Repeat("x", 200)})
	}
	SetFailures(b, many)
	if n, size := len(Failures(b)), len(b.Annotations[FailuresAnnotation]); n == 0 || size > maxFailures+2*n {
		t.Errorf("%d failures in %d bytes", n, size)
	}
	b.Annotations[FailuresAnnotation] = "another client's text"
	if got := Failures(b); got != nil {
		t.Errorf("failures %+v", got)
	}
}

func TestJoinedHasFirstErrorAndCount(t *testing.T) {
	t.Parallel()
	if got, want := Joined([]string{"1", "2", "3", "4", "5"}), "1; 2; 3; and 2 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Joined([]string{strings.Repeat("long ", 1000)}); len(got) > maxMessage {
		t.Errorf("%d bytes", len(got))
	}
}
