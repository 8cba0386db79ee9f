// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
)

// ofOthers is a management cluster that serves no PlanGuards.
func ofOthers(m mgmt) mgmt {
	m.Client = interceptor.NewClient(m.Client.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, is := obj.(*planv1.PlanGuard); is {
			return &meta.NoKindMatchError{GroupKind: planv1.GroupVersion().WithKind("PlanGuard").GroupKind(), SearchedVersions: []string{"v1alpha1"}}
		}
		return c.Get(ctx, key, obj, opts...)
	}})
	return m
}

// TestPlanForOtherControllers changes a Cluster as other controllers write it, and requires
// the plan that it has in a management cluster of Capstan's, unless the difference can
// decide about Machines.
func TestPlanForOtherControllers(t *testing.T) {
	t.Parallel()
	// As upstream writes objects: a template without the label of its Cluster, readiness
	// gates in another order, an owner that does not block, and one condition less.
	form := func(obj client.Object) {
		switch obj := obj.(type) {
		case *bootstrapv1.KubeadmConfigTemplate:
			delete(obj.Labels, clusterv1.ClusterNameLabel)
		case *clusterv1.Machine:
			slices.Reverse(obj.Spec.ReadinessGates)
		case *corev1.Secret:
			for i := range obj.OwnerReferences {
				obj.OwnerReferences[i].BlockOwnerDeletion = nil
			}
		}
	}
	condition := func(change func(*metav1.Condition)) func(client.Object) {
		return func(obj client.Object) {
			m, is := obj.(*clusterv1.Machine)
			if !is {
				return
			}
			for i := range m.Status.Conditions {
				if m.Status.Conditions[i].Type == clusterv1.MachineUpToDateCondition {
					change(&m.Status.Conditions[i])
				}
			}
		}
	}
	checked := func(m mgmt) mgmt {
		m = ofOthers(m)
		check := &clusterv1.MachineHealthCheck{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "check", UID: "check", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}},
			Spec: clusterv1.MachineHealthCheckSpec{
				ClusterName: "demo", Selector: metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: "demo"}},
				Checks: clusterv1.MachineHealthCheckChecks{NodeStartupTimeoutSeconds: new(int32(600))},
			},
			Status: clusterv1.MachineHealthCheckStatus{ExpectedMachines: new(int32(9)), Targets: []string{"deleted"}},
		}
		if err := m.world.Put(check); err != nil {
			t.Error(err)
		}
		return m
	}
	change := []changeplan.Write{upgrade(), shrink()}
	want := plan(t, serve(t), changeplan.Options{}, change...)
	for name, tc := range map[string]struct {
		changed func(client.Object)
		mgmt    func(mgmt) mgmt
		at      bool // rest
	}{
		"nothing else":               {func(client.Object) {}, ofOthers, true},
		"another form":               {form, ofOthers, true},
		"another form among its own": {form, func(m mgmt) mgmt { return m }, false},
		"another message":            {condition(func(c *metav1.Condition) { c.Message = "other" }), ofOthers, true},
		"a health check that lists a deleted Machine": {func(client.Object) {}, checked, true},
		"a condition that is not as others":           {condition(func(c *metav1.Condition) { c.Status = metav1.ConditionFalse }), ofOthers, false},
		"a scale up in progress": {func(obj client.Object) {
			if d, is := obj.(*clusterv1.MachineDeployment); is {
				*d.Spec.Replicas++
			}
		}, ofOthers, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan(t, tc.mgmt(serve(t, tc.changed)), changeplan.Options{}, change...)
			if tc.at {
				if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
					t.Errorf("(-among Capstan's +among others)\n%s", diff)
				}
				return
			}
			if !slices.ContainsFunc(got.Clusters, func(c planv1.Cluster) bool { return c.NotPredicted != nil && c.NotPredicted.Reason == planv1.NotAtRest }) {
				t.Errorf("all Clusters are predicted:\n%s", text(t, got))
			}
		})
	}
}
