// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
)

// serveOld serves v1beta1 too, for dry runs: what is stored is converted, changed and
// returned at that version, as API servers do.
func serveOld(t *testing.T) mgmt {
	t.Helper()
	const old = "cluster.x-k8s.io/v1beta1"
	convert, err := webhooks.NewConverter(func(kind schema.GroupKind) (string, error) { return kind.Group + "/v1beta2", nil })
	if err != nil {
		t.Fatal(err)
	}
	m := serve(t)
	inner := m.Client
	m.Client = interceptor.NewClient(m.world.Mgmt, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return inner.Get(ctx, key, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			u, is := obj.(*unstructured.Unstructured)
			if !is || u.GetAPIVersion() != old {
				return inner.Patch(ctx, obj, p, opts...)
			}
			if o := (&client.PatchOptions{}).ApplyOptions(opts); len(o.DryRun) == 0 || o.FieldManager != changeplan.DefaultManager || o.FieldValidation != metav1.FieldValidationStrict {
				t.Errorf("%s %s is patched with %+v", u.GetKind(), u.GetName(), o)
			}
			data, err := p.Data(obj)
			if err != nil {
				return err
			}
			stored := &unstructured.Unstructured{}
			stored.SetAPIVersion("cluster.x-k8s.io/v1beta2")
			stored.SetKind(u.GetKind())
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), stored); client.IgnoreNotFound(err) != nil {
				return err
			} else if err == nil {
				served := &unstructured.Unstructured{}
				if served.Object, err = convert.Object(stored.Object, old); err != nil {
					return err
				}
				before, err := served.MarshalJSON()
				if err != nil {
					return err
				}
				if data, err = jsonpatch.MergePatch(before, data); err != nil {
					return err
				}
			} else {
				u.SetUID("new")
				u.SetResourceVersion("1")
				if data, err = u.MarshalJSON(); err != nil {
					return err
				}
			}
			if err := runtime.DecodeInto(unstructured.UnstructuredJSONScheme, data, u); err != nil {
				return err
			}
			u.SetGeneration(stored.GetGeneration() + 1)
			return nil
		},
	})
	return m
}

// TestPlanOfObjectsOfAnOldVersionIsThatOfNewOnes plans one change in documents of both
// versions.
func TestPlanOfObjectsOfAnOldVersionIsThatOfNewOnes(t *testing.T) {
	t.Parallel()
	m := serveOld(t)
	for name, tc := range map[string]struct {
		was, is string
		want    planv1.Summary
	}{
		"a change in place": {
			"{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineDeployment, metadata: {namespace: default, name: plain-workers}, spec: {template: {spec: {nodeDrainTimeout: 10m}}}}",
			"{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {namespace: default, name: plain-workers}, spec: {template: {spec: {deletion: {nodeDrainTimeoutSeconds: 600}}}}}",
			planv1.Summary{Kept: 1, Changed: 1},
		},
		"a rollout": {
			"{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {namespace: default, name: demo}, spec: {topology: {version: v1.36.0}}}",
			"{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {namespace: default, name: demo}, spec: {topology: {version: v1.36.0}}}",
			planv1.Summary{Replaced: 3},
		},
		"a new object": {
			`{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineHealthCheck, metadata: {namespace: default, name: new}, spec: {clusterName: plain, nodeStartupTimeout: 20m,
				selector: {matchLabels: {a: b}}, unhealthyConditions: [{type: Ready, status: "False", timeout: 5m}]}}`,
			`{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineHealthCheck, metadata: {namespace: default, name: new}, spec: {clusterName: plain,
				selector: {matchLabels: {a: b}}, checks: {nodeStartupTimeoutSeconds: 1200, unhealthyNodeConditions: [{type: Ready, status: "False", timeoutSeconds: 300}]}}}`,
			planv1.Summary{Kept: 2},
		},
	} {
		old := applied(t, tc.was)
		merged := applied(t, tc.is) // an apply of memory has other managers
		p, want := plan(t, m, changeplan.Options{}, old), plan(t, m, changeplan.Options{}, merged)
		if p.Summary != tc.want {
			t.Errorf("%s: the plan:\n%s", name, text(t, p))
		}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Errorf("%s (-v1beta2 +v1beta1):\n%s", name, diff)
		}
	}
}

// TestPlanRefusesWhatCannotBeConverted has a server that returns a field of another type.
func TestPlanRefusesWhatCannotBeConverted(t *testing.T) {
	t.Parallel()
	m := serveOld(t)
	change := applied(t, "{apiVersion: cluster.x-k8s.io/v1beta1, kind: MachineDeployment, metadata: {namespace: default, name: plain-workers}, spec: {replicas: many}}")
	_, err := changeplan.Make(t.Context(), changeplan.Options{Mgmt: m, Now: now}, []changeplan.Write{change})
	if err == nil || !strings.Contains(err.Error(), "MachineDeployment default/plain-workers") || !strings.Contains(err.Error(), "spec.replicas") {
		t.Errorf("error %v, want the object and the field", err)
	}
	m.Client = refusing{m.Client, "plain-workers"} // as a server that does not have the version
	if _, err := changeplan.Make(t.Context(), changeplan.Options{Mgmt: m, Now: now}, []changeplan.Write{change}); err == nil || !strings.Contains(err.Error(), "refuses the change of MachineDeployment default/plain-workers: no") {
		t.Errorf("error %v", errors.Unwrap(err))
	}
}
