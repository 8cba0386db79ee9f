// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestDefaultClusterResourceSet(t *testing.T) {
	t.Parallel()
	builder.CheckDefaults(t, DefaultClusterResourceSet, map[string]builder.Defaulted{
		"applies once": {Obj: `{}`, Want: `spec: {strategy: ApplyOnce}`},
		"what is said": {Obj: `spec: {strategy: Reconcile}`, Want: `spec: {strategy: Reconcile}`},
	})
}

func TestValidateClusterResourceSet(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateClusterResourceSet, map[string]builder.Validated{
		"complete":           {Obj: `spec: {clusterSelector: {matchLabels: {a: b}}, strategy: ApplyOnce}`},
		"selects everything": {Obj: `spec: {strategy: ApplyOnce}`, Want: []string{`spec.clusterSelector: Required value: must not be empty: select Clusters by a label`}},
		"a bad selector":     {Obj: `spec: {clusterSelector: {matchExpressions: [{key: a, operator: In}]}}`, Want: []string{`spec.clusterSelector.matchExpressions[0].values: Required value: must be specified when ` + "`" + `operator` + "`" + ` is 'In' or 'NotIn'`}},
		"changed":            {Obj: `spec: {clusterSelector: {matchLabels: {a: b}}, strategy: Reconcile}`, Old: `spec: {clusterSelector: {matchLabels: {a: c}}, strategy: ApplyOnce}`, Want: []string{`spec.clusterSelector: Forbidden: cannot change; create another ClusterResourceSet instead`, `spec.strategy: Invalid value: "Reconcile": cannot change: it was "ApplyOnce"; create another object instead`}},
		"resources changed":  {Obj: `spec: {clusterSelector: {matchLabels: {a: b}}, strategy: Reconcile, resources: [{kind: Secret, name: s}]}`, Old: `spec: {clusterSelector: {matchLabels: {a: b}}, strategy: Reconcile}`},
	})
}

func TestValidateClusterResourceSetBinding(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateClusterResourceSetBinding, map[string]builder.Validated{
		"new":                 {Obj: `spec: {clusterName: c}`},
		"of the same cluster": {Obj: `spec: {clusterName: c, bindings: [{clusterResourceSetName: s}]}`, Old: `spec: {clusterName: c}`},
		"moved":               {Obj: `spec: {clusterName: d}`, Old: `spec: {clusterName: c}`, Want: []string{`spec.clusterName: Invalid value: "d": cannot change: it was "c"; create another object instead`}},
	})
}
