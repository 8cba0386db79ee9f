// SPDX-License-Identifier: Apache-2.0

// Package features has Capstan's feature gates, by upstream's names where upstream
// has them. All are enabled by default. Without a feature, its controllers do not
// run, and admission refuses the objects and fields that they would act on.
package features

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
	ClusterTopology = "ClusterTopology" // Clusters are created from ClusterClasses
	InPlaceUpdates  = "InPlaceUpdates"  // extensions update Machines in place
	MachinePool     = "MachinePool"     // providers scale groups of machines
	RuntimeSDK      = "RuntimeSDK"      // runtime extensions are called

	// DeprecatedV1Beta1Status fills status.deprecated.v1beta1, which clients of
	// v1beta1 read. Only Capstan has this gate, until it removes that version.
	DeprecatedV1Beta1Status = "DeprecatedV1Beta1Status"
)

// fixed are gates of upstream's that cannot be changed here, with their values: the
// features of the first four are always enabled, and the others are internal to
// upstream's controllers.
var fixed = map[string]bool{
	"KubeadmBootstrapFormatIgnition":                      true,
	"MachineSetPreflightChecks":                           true,
	"MachineTaintPropagation":                             true,
	"MachineWaitForVolumeDetachConsiderVolumeAttachments": true,
	"PriorityQueue":                                       false,
	"ReconcilerRateLimiting":                              false,
}

// names are the names of the gates, sorted.
var names = []string{ClusterTopology, DeprecatedV1Beta1Status, InPlaceUpdates, MachinePool, RuntimeSDK}

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
	known := "give some of " + strings.Join(names, ", ") + ", each =true or =false"
	if strings.Trim(text, ", ") == "" {
		return errors.New("there is none: " + known)
	}
	gates := featuregate.NewFeatureGate()
	specs := map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, name := range names {
		spec := featuregate.FeatureSpec{Default: g.Enabled(name), PreRelease: featuregate.Beta}
		if name == DeprecatedV1Beta1Status {
			spec.PreRelease = featuregate.Deprecated
		}
		specs[featuregate.Feature(name)] = spec
	}
	for name, value := range fixed {
		specs[featuregate.Feature(name)] = featuregate.FeatureSpec{Default: value != slices.Contains(g.Ignored, name), PreRelease: featuregate.Beta}
	}
	if err := gates.Add(specs); err != nil {
		return err
	}
	if err := gates.Set(text); err != nil {
		return fmt.Errorf("%w: %s", err, known)
	}
	g.Off, g.Ignored = nil, nil
	for _, name := range slices.Sorted(maps.Keys(fixed)) {
		if gates.Enabled(featuregate.Feature(name)) != fixed[name] {
			g.Ignored = append(g.Ignored, name)
		}
	}
	for _, name := range names {
		if !gates.Enabled(featuregate.Feature(name)) {
			g.Off = append(g.Off, name)
		}
	}
	return nil
}

// String implements pflag.Value: it returns all gates as Set reads them.
func (g *Gates) String() string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%s=%t", name, g.Enabled(name)))
	}
	for _, name := range g.Ignored {
		all = append(all, fmt.Sprintf("%s=%t", name, !fixed[name]))
	}
	return strings.Join(all, ",")
}

// Type implements pflag.Value.
func (*Gates) Type() string { return "name=true|false,..." }

// Usage is the help text of the flag.
const Usage = "features to turn off or on again; what a feature that is off would act on is refused"
