// SPDX-License-Identifier: Apache-2.0

package hookrules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/blang/semver/v4"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// maxSkew is how many minor versions workers may be behind.
const maxSkew = 3

// ControlPlanePlan reports why steps do not lead a control plane from a version
// to another: each is newer than the one before, no minor version is left out,
// and the last is the other version.
func ControlPlanePlan(from, to string, steps []hooksv1.UpgradeStep) error {
	return walk("controlPlaneUpgrades", from, to, steps, func(at, next semver.Version, _ string) error {
		if next.Major == at.Major && next.Minor > at.Minor+1 {
			return errors.New("control planes go one minor version at a time")
		}
		return nil
	})
}

// WorkersPlan reports why steps do not lead workers from a version to another:
// each is newer than the one before and one that the control plane has or goes
// to, and the last is the other version. Without steps there is nothing to
// object to: the caller chooses them.
func WorkersPlan(from, to, controlPlane string, steps, controlPlaneSteps []hooksv1.UpgradeStep) error {
	if len(steps) == 0 {
		return nil
	}
	if from == "" {
		return errors.New("workersUpgrades has steps for workers that do not exist")
	}
	reached := map[string]bool{controlPlane: true}
	for _, step := range controlPlaneSteps {
		reached[step.Version] = true
	}
	return walk("workersUpgrades", from, to, steps, func(at, next semver.Version, text string) error {
		if !reached[text] {
			return errors.New("the control plane does not go there")
		}
		if next.Major == at.Major && next.Minor > at.Minor+maxSkew {
			return fmt.Errorf("workers may not be more than %d minor versions behind", maxSkew)
		}
		return nil
	})
}

// walk goes the steps of a plan.
func walk(plan, from, to string, steps []hooksv1.UpgradeStep, mayGo func(at, next semver.Version, text string) error) error {
	at, err := version(from)
	if err != nil {
		return err
	}
	goal, err := version(to)
	if err != nil {
		return err
	}
	for i, step := range steps {
		next, err := version(step.Version)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", plan, i, err)
		}
		if next.LE(at) {
			return fmt.Errorf("%s[%d] leads from v%s to v%s, which is not newer", plan, i, at, next)
		}
		if err := mayGo(at, next, step.Version); err != nil {
			return fmt.Errorf("%s[%d] leads from v%s to v%s: %w", plan, i, at, next, err)
		}
		at = next
	}
	if !at.EQ(goal) {
		return fmt.Errorf("%s ends at v%s: want v%s", plan, at, goal)
	}
	return nil
}

func version(text string) (semver.Version, error) {
	digits, ok := strings.CutPrefix(text, "v")
	parsed, err := semver.Parse(digits)
	if err != nil || !ok {
		return semver.Version{}, fmt.Errorf("%q is no version such as v1.36.0", text)
	}
	return parsed, nil
}
