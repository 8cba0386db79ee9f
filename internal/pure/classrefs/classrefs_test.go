// SPDX-License-Identifier: Apache-2.0

package classrefs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

const spec = `spec:
  infrastructure: {templateRef: {apiVersion: g/v1, kind: HostsTemplate, name: hosts}}
  controlPlane: {templateRef: {apiVersion: g/v1, kind: PlaneTemplate, name: plane}, machineInfrastructure: {templateRef: {apiVersion: g/v1, kind: HostTemplate, name: host}}}
  workers:
    machineDeployments: [{class: a, bootstrap: {templateRef: {apiVersion: g/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: g/v1, kind: HostTemplate, name: host}}}]
    machinePools: [{class: a, bootstrap: {templateRef: {apiVersion: g/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: g/v1, kind: PoolTemplate, name: pool}}}]
`

func TestTemplatesOfAClass(t *testing.T) {
	t.Parallel()
	class := builder.Parse[clusterv1.ClusterClass](t, spec)
	var all, distinct []string
	for _, t := range All(class) {
		all = append(all, t.Field)
	}
	for _, t := range Distinct(class) {
		distinct = append(distinct, t.Ref.Name)
	}
	want := []string{
		"spec.infrastructure.templateRef", "spec.controlPlane.templateRef", "spec.controlPlane.machineInfrastructure.templateRef",
		"spec.workers.machineDeployments[a].bootstrap.templateRef", "spec.workers.machineDeployments[a].infrastructure.templateRef",
		"spec.workers.machinePools[a].bootstrap.templateRef", "spec.workers.machinePools[a].infrastructure.templateRef",
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"hosts", "plane", "host", "boot", "pool"}, distinct); diff != "" {
		t.Errorf("distinct (-want +got):\n%s", diff)
	}
	class.Spec.ControlPlane.MachineInfrastructure = clusterv1.ClusterClassTemplate{}
	if got := len(All(class)); got != len(want)-1 {
		t.Errorf("%d without machines of the control plane", got)
	}
}

func TestCompatible(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		from, to string // in spec
		want     []string
	}{
		"the same":                                {"g/v1", "g/v1", nil},
		"other names":                             {"name: host", "name: other", nil},
		"another version":                         {"g/v1", "g/v2", nil},
		"another group":                           {"{apiVersion: g/v1, kind: HostsTemplate", "{apiVersion: h/v1, kind: HostsTemplate", []string{"spec.infrastructure.templateRef is a HostsTemplate.h, and was a HostsTemplate.g"}},
		"another control plane":                   {"PlaneTemplate", "OtherTemplate", []string{"spec.controlPlane.templateRef is a OtherTemplate.g, and was a PlaneTemplate.g"}},
		"other hosts":                             {"HostTemplate", "OtherTemplate", []string{"spec.controlPlane.machineInfrastructure.templateRef is a OtherTemplate.g, and was a HostTemplate.g", "spec.workers.machineDeployments[a].infrastructure.templateRef is a OtherTemplate.g, and was a HostTemplate.g"}},
		"no machines any more":                    {", machineInfrastructure: {templateRef: {apiVersion: g/v1, kind: HostTemplate, name: host}}", "", []string{"spec.controlPlane.machineInfrastructure.templateRef is set in one, and not in the other"}},
		"another bootstrap":                       {"BootTemplate", "OtherTemplate", nil},
		"other pools":                             {"PoolTemplate", "OtherTemplate", []string{"spec.workers.machinePools[a].infrastructure.templateRef is a OtherTemplate.g, and was a PoolTemplate.g"}},
		"other pools, of other classes":           {"machinePools: [{class: a, bootstrap: {templateRef: {apiVersion: g/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: g/v1, kind: PoolTemplate", "machinePools: [{class: b, bootstrap: {templateRef: {apiVersion: g/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: g/v1, kind: OtherTemplate", nil},
		"no workers, which other functions check": {"machineDeployments: [{class: a,", "machineDeployments: [{class: b,", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Compatible(builder.Parse[clusterv1.ClusterClass](t, strings.ReplaceAll(spec, tc.from, tc.to)), builder.Parse[clusterv1.ClusterClass](t, spec))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}
