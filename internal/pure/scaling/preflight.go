// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// maxMinorsBehind is how many minor versions a kubelet may be behind the API server:
// https://kubernetes.io/releases/version-skew-policy/#kubelet
const maxMinorsBehind = 3

// ControlPlane holds the fields of a control plane object that the checks need.
type ControlPlane struct {
	Name                    string // kind, namespace and name, for messages
	Version                 string // desired; empty when the control plane manages none
	Provisioning, Upgrading bool
}

// Preflight is the input of the checks before a Machine is created.
type Preflight struct {
	// ControlPlane is nil for a Cluster without a control plane object.
	ControlPlane *ControlPlane
	// Topology says whether the Cluster has a topology.
	Topology bool
	// Pending is the version that a topology will set on the control plane next; "" for
	// none.
	Pending string
	// Version of the new Machines; empty when they have none.
	Version string
	// Kubeadm says whether the new Machines are bootstrapped by kubeadm.
	Kubeadm bool
	// Skip are the checks to skip.
	Skip []clusterv1.MachineSetPreflightCheck
}

// check is one rule; it returns its objection, or nothing.
type check struct {
	name    clusterv1.MachineSetPreflightCheck
	objects func(p Preflight, machine *semver.Version, controlPlane semver.Version) string
}

var checks = []check{
	{clusterv1.MachineSetPreflightCheckControlPlaneIsStable, controlPlaneIsStable},
	{clusterv1.MachineSetPreflightCheckKubernetesVersionSkew, kubernetesVersionSkew},
	{clusterv1.MachineSetPreflightCheckKubeadmVersionSkew, kubeadmVersionSkew},
	{clusterv1.MachineSetPreflightCheckControlPlaneVersionSkew, controlPlaneVersionSkew},
}

// SkipList parses the value of MachineSetSkipPreflightChecksAnnotation.
func SkipList(value string) (skip []clusterv1.MachineSetPreflightCheck) {
	for name := range strings.SplitSeq(value, ",") {
		if name = strings.TrimSpace(name); name != "" {
			skip = append(skip, clusterv1.MachineSetPreflightCheck(name))
		}
	}
	return skip
}

// Objections returns why no Machine may be created now; nothing when one may.
//
// A new Machine should find a control plane that it can join and whose version will not
// change right after. So the control plane must be past its first provisioning, not
// upgrading and not about to; the Machine's minor version must not be above the control
// plane's, nor more than three below; kubeadm joins only a control plane of its own
// minor version; and in a topology, Machines of a version other than the control plane's
// would be replaced immediately. A control plane without a version is not checked.
func (p Preflight) Objections() ([]string, error) {
	if p.ControlPlane == nil || p.ControlPlane.Version == "" || slices.Contains(p.Skip, clusterv1.MachineSetPreflightCheckAll) {
		return nil, nil
	}
	controlPlane, err := semver.ParseTolerant(p.ControlPlane.Version)
	if err != nil {
		return nil, fmt.Errorf("read version of %s: %w", p.ControlPlane.Name, err)
	}
	var machine *semver.Version
	if p.Version != "" {
		v, err := semver.ParseTolerant(p.Version)
		if err != nil {
			return nil, fmt.Errorf("read spec.template.spec.version: %w", err)
		}
		machine = &v
	}
	var why []string
	for _, c := range checks {
		if slices.Contains(p.Skip, c.name) {
			continue
		}
		if o := c.objects(p, machine, controlPlane); o != "" {
			why = append(why, fmt.Sprintf("%s (%q preflight check failed)", o, c.name))
		}
	}
	return why, nil
}

func controlPlaneIsStable(p Preflight, _ *semver.Version, _ semver.Version) string {
	switch {
	case p.ControlPlane.Provisioning:
		return p.ControlPlane.Name + " is provisioning"
	case p.ControlPlane.Upgrading:
		return p.ControlPlane.Name + " is upgrading"
	case p.Pending != "":
		return fmt.Sprintf("%s has a pending version upgrade to %s", p.ControlPlane.Name, p.Pending)
	}
	return ""
}

func kubernetesVersionSkew(p Preflight, machine *semver.Version, controlPlane semver.Version) string {
	switch {
	case machine == nil || machine.Major != controlPlane.Major:
		return ""
	case machine.Minor > controlPlane.Minor:
		return fmt.Sprintf("version %s is above %s of the control plane", p.Version, p.ControlPlane.Version)
	case machine.Minor+maxMinorsBehind < controlPlane.Minor:
		return fmt.Sprintf("version %s is more than %d minor versions below %s of the control plane", p.Version, maxMinorsBehind, p.ControlPlane.Version)
	}
	return ""
}

func kubeadmVersionSkew(p Preflight, machine *semver.Version, controlPlane semver.Version) string {
	if !p.Kubeadm || machine == nil || (machine.Major == controlPlane.Major && machine.Minor == controlPlane.Minor) {
		return ""
	}
	return fmt.Sprintf("kubeadm of version %s joins only a control plane of the same minor version, not %s", p.Version, p.ControlPlane.Version)
}

func controlPlaneVersionSkew(p Preflight, machine *semver.Version, _ semver.Version) string {
	if !p.Topology || machine == nil || p.Version == p.ControlPlane.Version {
		return ""
	}
	return fmt.Sprintf("version %s is not %s of the control plane", p.Version, p.ControlPlane.Version)
}
