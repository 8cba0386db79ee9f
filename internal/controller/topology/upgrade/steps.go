// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// maxSkew is how many minor versions workers may be behind the control plane.
const maxSkew = 3

// Way is the start and the target of an upgrade.
type Way struct {
	ControlPlane string // current version of the control plane
	Workers      string // the lowest version of workers; "" without workers, Target if none is behind
	Target       string
}

// Steps are the versions still ahead, in order; the last is the target.
type Steps struct {
	ControlPlane, Workers []string
}

// NewWay returns the start of an upgrade. Workers beyond the target, which only a user can
// set, count as upgraded.
func NewWay(controlPlane string, workers []string, target string) Way {
	w := Way{ControlPlane: controlPlane, Target: target}
	for _, v := range workers {
		if Older(target, v) {
			v = target
		}
		if w.Workers == "" || w.Workers == target || v != target && Older(v, w.Workers) {
			w.Workers = v
		}
	}
	return w
}

// Needed reports whether there is anything to upgrade.
func (w Way) Needed() bool { return w.ControlPlane != w.Target || w.workers() }

// workers reports whether there are workers to upgrade.
func (w Way) workers() bool { return w.Workers != "" && w.Workers != w.Target }

// StepsFromClass uses the versions listed by a ClusterClass, in order: the last of each minor
// after that of the control plane. Without a list it goes directly to the target, if
// that is at most the next minor version.
func StepsFromClass(w Way, list []string) (Steps, error) {
	if w.ControlPlane == w.Target {
		return Steps{}, nil
	}
	from, err := parse(w.ControlPlane)
	if err != nil {
		return Steps{}, err
	}
	to, err := parse(w.Target)
	if err != nil {
		return Steps{}, err
	}
	// Listed versions up to the control plane's are behind it. The order of unlisted
	// builds of one version is unknown, so they count as ahead.
	begin, end := slices.Index(list, w.ControlPlane)+1, slices.Index(list, w.Target)
	remedy := ""
	switch {
	case to.LT(from), end >= 0 && end < begin:
		remedy = "set spec.topology.version to " + w.ControlPlane + " or a later one: a control plane does not go back"
	case len(list) > 0 && end < 0:
		remedy = "set spec.topology.version to one that the ClusterClass lists in spec.kubernetesVersions: " + strings.Join(list, ", ")
	case len(list) > 0:
		steps, err := lastOfMinors(from, list[begin:end+1])
		return Steps{ControlPlane: steps}, err
	case to.Major != from.Major || to.Minor > from.Minor+1:
		remedy = "list the versions on the way in spec.kubernetesVersions of the ClusterClass"
	default:
		return Steps{ControlPlane: []string{w.Target}}, nil
	}
	return Steps{}, fmt.Errorf("cannot compute an upgrade plan from %s to %s: %s", w.ControlPlane, w.Target, remedy)
}

// lastOfMinors reduces a list to the last version of each minor version. Versions before
// a version are omitted, and so is its own minor version, unless the list ends there: an
// intermediate patch version would be one more rollout, which upstream does not do
// either.
func lastOfMinors(from semver.Version, list []string) (steps []string, err error) {
	var last semver.Version
	for _, text := range list {
		v, err := parse(text)
		switch {
		case err != nil:
			return nil, err
		case v.LT(from):
		case len(steps) > 0 && (v.Major == last.Major && v.Minor == last.Minor || len(steps) == 1 && last.Major == from.Major && last.Minor == from.Minor):
			steps[len(steps)-1], last = text, v
		default:
			steps, last = append(steps, text), v
		}
	}
	return steps, nil
}

// CompleteSteps validates steps, and computes those of the workers if they are not set.
func CompleteSteps(w Way, s Steps) (Steps, error) {
	if err := CheckControlPlane(w, s.ControlPlane); err != nil {
		return Steps{}, err
	}
	if len(s.Workers) == 0 && w.workers() {
		var err error
		if s.Workers, err = seldom(w, s.ControlPlane); err != nil {
			return Steps{}, err
		}
	}
	return s, CheckWorkers(w, s)
}

// seldom adds a stop for the workers only when they cannot stay behind any longer.
func seldom(w Way, controlPlane []string) (steps []string, err error) {
	at, err := parse(w.Workers)
	if err != nil {
		return nil, err
	}
	candidate := ""
	for _, text := range append([]string{w.ControlPlane}, controlPlane...) {
		v, err := parse(text)
		if err != nil {
			return nil, err
		}
		if v.LT(at) || text == w.Workers {
			continue
		}
		if candidate != "" && v.Major == at.Major && v.Minor > at.Minor+maxSkew {
			steps = append(steps, candidate)
			if at, err = parse(candidate); err != nil {
				return nil, err
			}
		}
		candidate = text
	}
	return append(steps, w.Target), nil
}

// CheckControlPlane returns why steps do not upgrade the control plane to the target: each
// must be ahead of the one before, none may skip a minor version, and the last must be
// the target.
func CheckControlPlane(w Way, steps []string) error {
	const invalid = "invalid ControlPlane upgrade plan: item %d; "
	if w.ControlPlane == w.Target {
		if len(steps) > 0 {
			return errors.New("invalid ControlPlane upgrade plan; control plane is already at the desired version")
		}
		return nil
	}
	at, err := parse(w.ControlPlane)
	if err != nil {
		return err
	}
	for i, text := range steps {
		v, err := parse(text)
		if err != nil {
			return fmt.Errorf(invalid+"%w", i, err)
		}
		if !ahead(v, at) {
			return fmt.Errorf(invalid+"version %s must be greater than v%s", i, text, at)
		}
		if v.Major != at.Major || v.Minor > at.Minor+1 {
			return fmt.Errorf(invalid+"expecting a version with minor %d or %d, found version %s", i, at.Minor, at.Minor+1, text)
		}
		at = v
	}
	if last := last(steps); last != w.Target {
		return fmt.Errorf("control plane upgrade plan must end with version %s, ends with %s instead", w.Target, last)
	}
	return nil
}

// CheckWorkers returns why steps do not upgrade the workers to the target: each must be ahead
// of the one before and a version of the control plane, now or on its way, none may
// leave them too far behind it, and the last must be the target. Empty steps are valid:
// Complete computes them.
func CheckWorkers(w Way, s Steps) error {
	if len(s.Workers) == 0 {
		return nil
	}
	if !w.workers() {
		return errors.New("invalid worker upgrade plan; there are no workers or workers already at the desired version")
	}
	at, err := parse(w.Workers)
	if err != nil {
		return err
	}
	var strange []string
	for i, text := range s.Workers {
		v, err := parse(text)
		if err != nil {
			return fmt.Errorf("invalid workers upgrade plan: item %d; %w", i, err)
		}
		if !ahead(v, at) {
			return fmt.Errorf("invalid workers upgrade plan: item %d; version %s must be greater than v%s", i, text, at)
		}
		if text != w.ControlPlane && !slices.Contains(s.ControlPlane, text) {
			strange = append(strange, text)
		}
		at = v
	}
	if len(strange) > 0 {
		return fmt.Errorf("invalid workers upgrade plan: versions %s doesn't match any versions in the control plane upgrade plan nor the control plane version", strings.Join(strange, ","))
	}
	if last := last(s.Workers); last != w.Target {
		return fmt.Errorf("workers upgrade plan must end with version %s, ends with %s instead", w.Target, last)
	}
	return skew(w, s)
}

// skew requires that no step moves the control plane too far from the workers: it waits
// where they stop. If they are too far behind already, that is no error, because there
// is only one way out.
func skew(w Way, s Steps) error {
	at, next := w.Workers, s.Workers
	follow := func(cp string) {
		if len(next) > 0 && next[0] == cp {
			at, next = cp, next[1:]
		}
	}
	follow(w.ControlPlane)
	for _, cp := range s.ControlPlane {
		worker, err := parse(at)
		if err != nil {
			return err
		}
		v, err := parse(cp)
		if err != nil {
			return err
		}
		if v.Major == worker.Major && v.Minor > worker.Minor+maxSkew {
			return fmt.Errorf("invalid workers upgrade plan: with the control plane at %s, workers at %s would be more than %d minor versions behind", cp, at, maxSkew)
		}
		follow(cp)
	}
	return nil
}

func last(steps []string) string {
	if len(steps) == 0 {
		return "none"
	}
	return steps[len(steps)-1]
}

// CheckVersion requires a valid version.
func CheckVersion(version string) error {
	_, err := parse(version)
	return err
}

// Older reports whether a version precedes another. Builds of one version have no order,
// and neither have invalid versions.
func Older(a, b string) bool {
	first, err := parse(a)
	second, bad := parse(b)
	return err == nil && bad == nil && first.LT(second)
}

// ahead reports whether a version follows another, or is another build of it.
func ahead(v, of semver.Version) bool {
	return v.GT(of) || v.EQ(of) && !slices.Equal(v.Build, of.Build)
}

func parse(text string) (semver.Version, error) {
	digits, ok := strings.CutPrefix(text, "v")
	v, err := semver.Parse(digits)
	if err != nil || !ok {
		return semver.Version{}, fmt.Errorf("%q is no version such as v1.36.0", text)
	}
	return v, nil
}
