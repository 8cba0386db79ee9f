// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

// mostSingle is how many Machines are read one at a time: about as many cost an API server
// as much as a list of 100.
const mostSingle = 16

// readMachines reads the Machines of a Cluster that may have a cause to report. The table
// of all that the API server prints costs it a tenth of a list, and shows which need
// attention; the list is read if many do, or if the table does not show it.
func (r *evidence) readMachines(ctx context.Context, cluster client.ObjectKey) error {
	names, ok := r.needAttention(ctx, cluster)
	if !ok || len(names) > mostSingle {
		return r.readList(ctx, clusterv1.GroupVersion().WithKind("Machine"), client.InNamespace(cluster.Namespace), references.OfCluster(cluster.Name))
	}
	reads := make([]func(context.Context) error, len(names))
	for i, name := range names {
		reads[i] = func(ctx context.Context) error {
			obj, err := r.Get(ctx, references.To(causes.Key{Group: clusterv1.GroupVersion().Group, Kind: "Machine", Namespace: cluster.Namespace, Name: name}))
			if obj != nil {
				r.add(obj)
			}
			return r.readable(err)
		}
	}
	return references.Together(ctx, reads...)
}

// needAttention returns the names of the Machines of a Cluster that are not healthy, and those
// that own the start. It is false if the API server prints no such table.
func (r *evidence) needAttention(ctx context.Context, cluster client.ObjectKey) ([]string, bool) {
	if r.Raw == nil {
		return nil, false
	}
	gv := clusterv1.GroupVersion()
	text, err := r.Raw.Get().AbsPath("/apis", gv.Group, gv.Version, "namespaces", cluster.Namespace, "machines").
		Param("labelSelector", fmt.Sprintf("%s=%s", clusterv1.ClusterNameLabel, cluster.Name)).Param("includeObject", string(metav1.IncludeNone)).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").DoRaw(ctx)
	if err != nil {
		return nil, false
	}
	names, ok := unhealthy(text)
	for _, owner := range r.start.GetOwnerReferences() {
		if owner.Kind == "Machine" && !slices.Contains(names, owner.Name) {
			names = append(names, owner.Name)
		}
	}
	return names, ok
}

// healthy are the values of the columns of a Machine that needs no attention. Up-to-date does
// not matter: it compares with a desired state that a rollout will reach.
var healthy = map[string]any{"Ready": "True", "Available": "True", "Paused": "False", "Phase": string(clusterv1.MachinePhaseRunning)}

// unhealthy returns the names in a table of Machines of those that need attention. It is false
// if the table lacks a column: the CRD is of an earlier version.
func unhealthy(text []byte) (names []string, ok bool) {
	var table struct {
		ColumnDefinitions []struct{ Name string }
		Rows              []struct{ Cells []any }
	}
	if json.Unmarshal(text, &table) != nil {
		return nil, false
	}
	columns := map[string]int{}
	for i, c := range table.ColumnDefinitions {
		columns[c.Name] = i
	}
	for _, column := range append(slices.Collect(maps.Keys(healthy)), "Name") {
		if _, has := columns[column]; !has {
			return nil, false
		}
	}
	for _, row := range table.Rows {
		if len(row.Cells) != len(table.ColumnDefinitions) {
			return nil, false
		}
		for column, value := range healthy {
			if row.Cells[columns[column]] != value {
				names = append(names, fmt.Sprint(row.Cells[columns["Name"]]))
				break
			}
		}
	}
	return names, true
}
