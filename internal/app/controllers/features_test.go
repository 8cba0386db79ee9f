// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"testing"
)

func TestGatesAreReadAndWrittenAsAFlag(t *testing.T) {
	t.Parallel()
	const choose = ": give some of ClusterTopology, DeprecatedV1Beta1Status, InPlaceUpdates, MachinePool, RuntimeSDK, each =true or =false"
	for name, tc := range map[string]struct {
		texts []string // one after the other, as of a flag that is given again
		off   []string
		fixed []string // that are ignored
		want  string   // the error
	}{
		"none":             {},
		"one off":          {texts: []string{"MachinePool=false"}, off: []string{GateMachinePool}},
		"one on":           {texts: []string{"MachinePool=true"}},
		"as upstream does": {texts: []string{"MachinePool=true,ClusterTopology=false, RuntimeSDK=false,InPlaceUpdates=true"}, off: []string{GateClusterTopology, GateRuntimeSDK}},
		"twice":            {texts: []string{"MachinePool=false,RuntimeSDK=false", "RuntimeSDK=true"}, off: []string{GateMachinePool}},
		"all of a stage":   {texts: []string{"AllBeta=false,RuntimeSDK=true"}, off: []string{GateClusterTopology, GateInPlaceUpdates, GateMachinePool}, fixed: []string{"KubeadmBootstrapFormatIgnition", "MachineSetPreflightChecks", "MachineTaintPropagation", "MachineWaitForVolumeDetachConsiderVolumeAttachments"}},
		"upstream's with the values they have here": {texts: []string{"MachineSetPreflightChecks=true,PriorityQueue=false,ReconcilerRateLimiting=false,KubeadmBootstrapFormatIgnition=true,MachineTaintPropagation=true,MachineWaitForVolumeDetachConsiderVolumeAttachments=true"}},
		"upstream's with others":                    {texts: []string{"MachineTaintPropagation=false,PriorityQueue=true", "PriorityQueue=false,MachineSetPreflightChecks=false"}, fixed: []string{"MachineSetPreflightChecks", "MachineTaintPropagation"}},
		"our own":                                   {texts: []string{"DeprecatedV1Beta1Status=false"}, off: []string{GateDeprecatedV1Beta1Status}},
		"unknown":                                   {texts: []string{"Pools=true"}, want: "unrecognized feature gate: Pools" + choose},
		"of another case":                           {texts: []string{"machinepool=false"}, want: "unrecognized feature gate: machinepool" + choose},
		"neither":                                   {texts: []string{"MachinePool=no"}, want: "invalid value of MachinePool=no, err: strconv.ParseBool: parsing \"no\": invalid syntax" + choose},
		"no value":                                  {texts: []string{"MachinePool"}, want: "missing bool value for MachinePool" + choose},
		"empty":                                     {texts: []string{""}, want: "there is none" + choose},
		"commas":                                    {texts: []string{", ,"}, want: "there is none" + choose},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g, again Gates
			for _, text := range tc.texts {
				if err := g.Set(text); err != nil || tc.want != "" {
					if err == nil || err.Error() != tc.want {
						t.Errorf("error %v, want %q", err, tc.want)
					}
				}
			}
			if !slices.Equal(g.Off, tc.off) {
				t.Errorf("off are %v, want %v", g.Off, tc.off)
			}
			if !slices.Equal(g.Ignored, tc.fixed) {
				t.Errorf("ignored are %v, want %v", g.Ignored, tc.fixed)
			}
			if err := again.Set(g.String()); err != nil || !slices.Equal(again.Off, g.Off) || !slices.Equal(again.Ignored, g.Ignored) {
				t.Errorf("%s is read as %v, error %v", g.String(), again.Off, err)
			}
			if !g.Enabled("") {
				t.Error("what no gate is for must be there")
			}
		})
	}
}
