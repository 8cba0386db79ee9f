// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// upgrade has the facts for a change of the topology version.
type upgrade struct {
	from, to string
	planned  bool // the class lists versions, or an extension plans upgrades
	blocked  bool // by hook AfterClusterUpgrade
	// Whether a control plane exists, its desired version, and its provisioning and
	// upgrade state.
	made                    bool
	wanted                  string
	provisioning, upgrading bool
	// Names of workers that are not all at the earlier version.
	deployments, pools []string
	// Names of pools whose Nodes cannot be read from this process.
	unseen []string
}

// check returns why the version cannot change now. A change back to the version
// that the control plane still has is always allowed: no upgrade has started. The
// same holds before a control plane exists.
func (u upgrade) check(at *field.Path) field.ErrorList {
	refuse := func(text string, args ...any) field.ErrorList {
		return field.ErrorList{field.Invalid(at, u.to, fmt.Sprintf(text, args...))}
	}
	if !u.made || u.wanted != u.from && u.to == u.wanted {
		return nil
	}
	from, err := semver.ParseTolerant(u.from)
	to, bad := semver.ParseTolerant(u.to)
	switch {
	case err != nil || bad != nil:
		return nil // validation of the version already reports it
	case released(to).LT(released(from)):
		return refuse("version cannot be decreased from %q to %q", u.from, u.to)
	case !u.planned && (to.Major != from.Major || to.Minor > from.Minor+1):
		return refuse("version cannot be increased from %q to %q", u.from, u.to)
	case u.blocked:
		return refuse("version cannot be changed when the %q hook is still blocking", "AfterClusterUpgrade")
	case u.wanted != u.from:
		return refuse("Cluster.spec.topology.version %s was not propagated to control plane yet (control plane version %s)", u.from, u.wanted)
	case u.provisioning:
		return refuse("control plane is currently provisioning")
	case u.upgrading:
		return refuse("control plane is still completing a previous upgrade")
	case len(u.deployments) > 0:
		return refuse("there are still MachineDeployments completing a previous upgrade: [%s]", list(u.deployments))
	case len(u.pools) > 0:
		return refuse("there are still MachinePools completing a previous upgrade: [%s]", list(u.pools))
	}
	return nil
}

// released is a version without its pre-release: upstream compares only that.
func released(v semver.Version) semver.Version {
	v.Pre = nil
	return v
}

func list(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ", ")
}
