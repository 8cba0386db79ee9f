// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestRender(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("c", 70)
	tests := map[string]struct {
		text string
		of   NameSubject
		data NameData
		want string
	}{
		"a cluster's":    {"{{ .cluster.name }}-x-{{ .random }}", NameOfCluster, NameData{Cluster: "c", Random: "abcde"}, "c-x-abcde"},
		"a deployment's": {"{{ .cluster.name }}-{{ .machineDeployment.topologyName }}", NameOfMachineDeployment, NameData{Cluster: "c", Topology: "md"}, "c-md"},
		"a pool's":       {"{{ .machinePool.topologyName }}", NameOfMachinePool, NameData{Topology: "mp"}, "mp"},
		"the default":    {"", NameOfMachinePool, NameData{Cluster: "c", Topology: "mp", Random: "abcde"}, "c-mp-abcde"},
		"too long":       {"{{ .cluster.name }}", NameOfCluster, NameData{Cluster: long, Random: "abcde"}, long[:58] + "abcde"},
		"just not":       {"{{ .cluster.name }}", NameOfCluster, NameData{Cluster: long[:63], Random: "abcde"}, long[:63]},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := RenderName(tc.text, tc.of, tc.data); err != nil || got != tc.want {
				t.Errorf("%q, error %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestWhatLooksRandomIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	if got := RandomName("uid", "role", "md", "0"); got != "9lpwk" {
		t.Errorf("got %s: names of objects that are there depend on it", got)
	}
	seen := map[string]bool{}
	for _, parts := range [][]string{{}, {""}, {"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab"}, {"a b"}, {"a\n1 b"}} {
		seen[RandomName("uid", parts...)] = true
		seen[RandomName("other", parts...)] = true
	}
	if len(seen) != 18 {
		t.Errorf("%d names of 18", len(seen))
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		of   NameSubject
		want string
	}{
		"none":           {"", NameOfCluster, ""},
		"a good one":     {"{{ .cluster.name }}-{{ .random }}", NameOfCluster, ""},
		"of workers":     {"{{ .machinePool.topologyName }}", NameOfMachinePool, ""},
		"of other":       {"{{ .machinePool.topologyName }}", NameOfMachineDeployment, `t: Invalid value: "{{ .machinePool.topologyName }}": can use .cluster.name, .machineDeployment.topologyName and .random: template: name:1:15: executing "name" at <.machinePool.topologyName>: map has no entry for key "machinePool"`},
		"no template":    {"{{", NameOfCluster, `t: Invalid value: "{{": is no Go template: template: name:1: unclosed action`},
		"no name at all": {"{{ if false }}x{{ end }}", NameOfCluster, `t: Invalid value: "{{ if false }}x{{ end }}": makes names such as "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		"endless":        {strings.Repeat("x", 1025), NameOfCluster, "t: Too long: may not be more than 1024 bytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(builder.Messages(CheckNameTemplate(field.NewPath("t"), tc.text, tc.of)), "\n"); got != tc.want {
				t.Errorf("errors %s\nwant %s", got, tc.want)
			}
		})
	}
}
