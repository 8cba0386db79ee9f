// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"
)

// The gates.
const (
	GateClusterTopology = "ClusterTopology" // Clusters are created from ClusterClasses
	GateInPlaceUpdates  = "InPlaceUpdates"  // extensions update Machines in place
	GateMachinePool     = "MachinePool"     // providers scale groups of machines
	GateRuntimeSDK      = "RuntimeSDK"      // runtime extensions are called

	// GateDeprecatedV1Beta1Status fills status.deprecated.v1beta1, which clients of
	// v1beta1 read. Only Capstan has this gate, until it removes that version.
	GateDeprecatedV1Beta1Status = "DeprecatedV1Beta1Status"
)

// fixedGates are gates of upstream's that cannot be changed here, with their values: the
// features of the first four are always enabled, and the others are internal to
// upstream's controllers.
var fixedGates = map[string]bool{
	"KubeadmBootstrapFormatIgnition":                      true,
	"MachineSetPreflightChecks":                           true,
	"MachineTaintPropagation":                             true,
	"MachineWaitForVolumeDetachConsiderVolumeAttachments": true,
	"PriorityQueue":                                       false,
	"ReconcilerRateLimiting":                              false,
}

// gateNames are the names of the gates, sorted.
var gateNames = []string{GateClusterTopology, GateDeprecatedV1Beta1Status, GateInPlaceUpdates, GateMachinePool, GateRuntimeSDK}

// Gates are the enabled features. The zero value enables all of them. It is the
// value of a flag.
type Gates struct {
	Off     []string // sorted
	Ignored []string // of upstream's, sorted: those given with another value than here
}

// Enabled reports whether a feature is enabled. "" stays enabled: no gate controls
// it.
func (g Gates) Enabled(name string) bool { return !slices.Contains(g.Off, name) }

// Set implements pflag.Value: it reads name=true|false, with commas between.
func (g *Gates) Set(text string) error {
	known := "give some of " + strings.Join(gateNames, ", ") + ", each =true or =false"
	if strings.Trim(text, ", ") == "" {
		return errors.New("there is none: " + known)
	}
	gates := featuregate.NewFeatureGate()
	specs := map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, name := range gateNames {
		spec := featuregate.FeatureSpec{Default: g.Enabled(name), PreRelease: featuregate.Beta}
		if name == GateDeprecatedV1Beta1Status {
			spec.PreRelease = featuregate.Deprecated
		}
		specs[featuregate.Feature(name)] = spec
	}
	for name, value := range fixedGates {
		specs[featuregate.Feature(name)] = featuregate.FeatureSpec{Default: value != slices.Contains(g.Ignored, name), PreRelease: featuregate.Beta}
	}
	if err := gates.Add(specs); err != nil {
		return err
	}
	if err := gates.Set(text); err != nil {
		return fmt.Errorf("%w: %s", err, known)
	}
	g.Off, g.Ignored = nil, nil
	for _, name := range slices.Sorted(maps.Keys(fixedGates)) {
		if gates.Enabled(featuregate.Feature(name)) != fixedGates[name] {
			g.Ignored = append(g.Ignored, name)
		}
	}
	for _, name := range gateNames {
		if !gates.Enabled(featuregate.Feature(name)) {
			g.Off = append(g.Off, name)
		}
	}
	return nil
}

// String implements pflag.Value: it returns all gates as Set reads them.
func (g *Gates) String() string {
	var all []string
	for _, name := range gateNames {
		all = append(all, fmt.Sprintf("%s=%t", name, g.Enabled(name)))
	}
	for _, name := range g.Ignored {
		all = append(all, fmt.Sprintf("%s=%t", name, !fixedGates[name]))
	}
	return strings.Join(all, ",")
}

// Type implements pflag.Value.
func (*Gates) Type() string { return "name=true|false,..." }

// GatesUsage is the help text of the flag.
const GatesUsage = "features to turn off or on again; what a feature that is off would act on is refused"
