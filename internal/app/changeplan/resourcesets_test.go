// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/builder"
)

// network is a ConfigMap with an object of a kind that no workload cluster has.
func network(color string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: network}, data: {it: '{apiVersion: example.com/v1, kind: Network, metadata: {name: " + color + "}}'}}"
}

// resourceSet applies a ConfigMap to Clusters with a label net.
func resourceSet(label, strategy, config string) string {
	return fmt.Sprintf("{apiVersion: addons.cluster.x-k8s.io/v1beta2, kind: ClusterResourceSet, metadata: {namespace: default, name: set}, "+
		"spec: {strategy: %s, clusterSelector: {matchLabels: {net: %s}}, resources: [{kind: ConfigMap, name: %s}]}}", strategy, label, config)
}

// selectable gives Cluster plain the label net=a.
func selectable(obj client.Object) {
	if c, is := obj.(*clusterv1.Cluster); is && c.Name == "plain" {
		c.Labels = map[string]string{"net": "a"}
	}
}

// bound is a management cluster in which a ClusterResourceSet selects Cluster plain.
// Its binding may report that the workload cluster has not accepted the ConfigMap.
func bound(t *testing.T, strategy string, applied bool) mgmt {
	t.Helper()
	m := serve(t, selectable)
	set := builder.Parse[addonsv1.ClusterResourceSet](t, resourceSet("a", strategy, "network"))
	set.UID, set.Finalizers = "set", []string{addonsv1.ClusterResourceSetFinalizer}
	config := builder.Parse[corev1.ConfigMap](t, network("blue"))
	config.UID = "config"
	binding := builder.Parse[addonsv1.ClusterResourceSetBinding](t, fmt.Sprintf("{metadata: {namespace: default, name: plain, uid: binding}, spec: {clusterName: plain, "+
		"bindings: [{clusterResourceSetName: set, resources: [{kind: ConfigMap, name: network, applied: %t}]}]}}", applied))
	for _, obj := range []client.Object{set, config, binding} {
		if err := m.world.Put(obj); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestPlanOfResourceSets has changes that apply something to Clusters, or no longer do:
// the plan has the bindings, and no Machine changes.
func TestPlanOfResourceSets(t *testing.T) {
	t.Parallel()
	deleted := applied(t, resourceSet("a", "ApplyOnce", "network"))
	deleted.Delete, deleted.Patch = true, ""
	for name, tc := range map[string]struct {
		m      mgmt
		change []changeplan.Write
		want   string // Clusters, each with the objects that are written
		notes  int    // about what is applied
	}{
		"a new set":                     {serve(t, selectable), []changeplan.Write{applied(t, network("blue")), applied(t, resourceSet("a", "ApplyOnce", "network"))}, "plain: ClusterResourceSetBinding plain Created", 1},
		"a set without its ConfigMap":   {serve(t, selectable), []changeplan.Write{applied(t, resourceSet("a", "ApplyOnce", "network"))}, "plain: ClusterResourceSetBinding plain Created", 0},
		"a set that selects no Cluster": {serve(t), []changeplan.Write{applied(t, network("blue")), applied(t, resourceSet("a", "ApplyOnce", "network"))}, "", 0},
		"the label of another Cluster":  {bound(t, "ApplyOnce", true), []changeplan.Write{set("Cluster", "demo", "a", "metadata", "labels", "net")}, "demo: ClusterResourceSetBinding demo Created", 1},
		"another label of the Cluster":  {bound(t, "ApplyOnce", true), []changeplan.Write{set("Cluster", "plain", "b", "metadata", "labels", "net")}, "plain:", 0},
		"a set that selects no longer":  {bound(t, "ApplyOnce", true), []changeplan.Write{applied(t, resourceSet("b", "ApplyOnce", "network"))}, "plain:", 0},
		"a set with another ConfigMap":  {bound(t, "ApplyOnce", true), []changeplan.Write{applied(t, resourceSet("a", "ApplyOnce", "other"))}, "plain: ClusterResourceSetBinding plain Changed", 0},
		"the content, applied once":     {bound(t, "ApplyOnce", true), []changeplan.Write{applied(t, network("red"))}, "plain:", 0},
		"the content, always applied":   {bound(t, "Reconcile", true), []changeplan.Write{applied(t, network("red"))}, "plain: ClusterResourceSetBinding plain Changed", 1},
		"what is not applied until now": {bound(t, "ApplyOnce", false), []changeplan.Write{set("MachineDeployment", "plain-workers", "x", "metadata", "labels", "x")}, "plain:", 0},
		"a deleted set":                 {bound(t, "ApplyOnce", true), []changeplan.Write{deleted}, "plain: ClusterResourceSet set Deleted ClusterResourceSetBinding plain Deleted ConfigMap network Deleted", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(t, tc.m, changeplan.Options{}, tc.change...)
			var got []string
			for _, c := range p.Clusters {
				got = append(got, c.Name+":")
				for _, o := range c.Objects {
					got = append(got, o.Kind, o.Name, string(o.Action))
				}
			}
			notes := slices.DeleteFunc(slices.Clone(p.Assumptions), func(s string) bool {
				return !strings.HasPrefix(s, "ConfigMap network of ClusterResourceSet set is applied")
			})
			if strings.Join(got, " ") != tc.want || len(notes) != tc.notes || p.Summary.NotPredicted+p.Summary.Go() > 0 {
				t.Errorf("%q, %d notes; the plan:\n%s", strings.Join(got, " "), len(notes), text(t, p))
			}
		})
	}
}

// TestPlanReportsResourceSetsThatMayNotBeRead has users who may read only a part of what
// is applied to workload clusters.
func TestPlanReportsResourceSetsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	const unread = "ClusterResourceSets and their bindings may not be read: what is applied to the workload cluster is not predicted (default/plain)"
	for name, tc := range map[string]struct {
		refused  string
		change   changeplan.Write
		want     string
		clusters int
	}{
		"sets":                  {"ClusterResourceSetList", shrink(), unread, 1},
		"the binding":           {"ClusterResourceSetBinding", shrink(), unread, 1},
		"the ConfigMap":         {"ConfigMap", shrink(), "ConfigMap network of ClusterResourceSet set may not be read: whether it is applied to the workload cluster is not predicted (default/plain)", 1},
		"sets with a ConfigMap": {"ClusterResourceSetList", applied(t, network("red")), "ClusterResourceSets may not be read: to which Clusters this ConfigMap is applied is not predicted (default/network)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := bound(t, "Reconcile", true)
			refuse := func(obj any) error {
				if fmt.Sprintf("%T", obj)[strings.LastIndex(fmt.Sprintf("%T", obj), ".")+1:] == tc.refused {
					return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
				}
				return nil
			}
			m.Client = interceptor.NewClient(m.Client.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key types.NamespacedName, obj client.Object, opts ...client.GetOption) error {
					if err := refuse(obj); err != nil {
						return err
					}
					return c.Get(ctx, key, obj, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if err := refuse(list); err != nil {
						return err
					}
					return c.List(ctx, list, opts...)
				},
			})
			p := plan(t, m, changeplan.Options{}, tc.change)
			if !slices.Contains(p.Assumptions, tc.want) || p.Summary.NotPredicted > 0 || len(p.Clusters) != tc.clusters {
				t.Errorf("the plan:\n%s", text(t, p))
			}
		})
	}
}
