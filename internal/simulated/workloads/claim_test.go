// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// TestSetsWithoutSelectorAreReported: an earlier version could store them.
func TestSetsWithoutSelectorAreReported(t *testing.T) {
	t.Parallel()
	for name, selector := range map[string]*metav1.LabelSelector{
		"empty": {}, "none": nil, "invalid": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Near"}}},
	} {
		var logged []string
		log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
		now := testclock.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
		s := newStore(t, now, log)
		set := replicaSet("bad")
		set.TypeMeta = metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet"}
		set.UID, set.Spec.Selector, set.Spec.Replicas = "u", selector, new(int32(1))
		if err := inject(s, kinds.ByType(set), set); err != nil {
			t.Fatal(err)
		}
		controllers(t, s, now, log, true)
		if got := strings.Join(logged, "\n"); !strings.Contains(got, "selector of ReplicaSet bad: ") || strings.Contains(got, "%!") {
			t.Errorf("%s: got %q", name, got)
		}
		if n := replicas(t, s, "bad"); n != 0 {
			t.Errorf("%s: got %d Pods", name, n)
		}
	}
}
