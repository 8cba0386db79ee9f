// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"testing"

	"github.com/capstan-dev/capstan/internal/pure/topology/upgrade"
)

func TestCondition(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		facts Facts
		want  string
	}{
		"paused":   {Facts{Paused: []string{PausedBySpec, PausedByAnnotation}}, "False Paused: Cluster spec.paused is set to true, Cluster has the cluster.x-k8s.io/paused annotation"},
		"deleting": {Facts{Deleting: true, DeleteHook: &upgrade.Blocking{Hook: "BeforeClusterDelete", Message: "busy"}}, "False Deleting: Cluster is deleting. Following hooks are blocking delete: BeforeClusterDelete: busy"},
		"class":    {Facts{ClassProblem: "it is not ready"}, "False ClusterClassNotReconciled: it is not ready"},
		"failed":   {Facts{Err: errors.New("boom"), Plan: &upgrade.Plan{}}, "False ReconcileFailed: boom"},
		"done":     {Facts{Plan: &upgrade.Plan{}}, "True ReconcileSucceeded: "},
		"creation": {Facts{Plan: &upgrade.Plan{Wait: true, Blocking: []upgrade.Blocking{{Hook: "BeforeClusterCreate", Message: "no quota"}}}}, "False ClusterCreating: Following hooks are blocking Cluster topology creation: BeforeClusterCreate: no quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Condition(tc.facts)
			if got := string(c.Status) + " " + c.Reason + ": " + c.Message; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
