// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
)

// IsProvisioning reports whether a control plane has a desired version and runs
// none yet. One that manages no version is never provisioning.
func (c ControlPlane) IsProvisioning(obj *unstructured.Unstructured) (bool, error) {
	_, wanted, err := c.Version.Get(obj)
	if err != nil || !wanted {
		return false, err
	}
	running, err := c.running(obj)
	return len(running) == 0, err
}

// IsUpgrading reports whether the desired version of a control plane is newer
// than one that it runs. Versions that differ only in build metadata have no
// order: that is an upgrade either way. A managed control plane may name only the
// minor version, such as v1.31.
func (c ControlPlane) IsUpgrading(obj *unstructured.Unstructured) (bool, error) {
	text, ok, err := c.Version.Get(obj)
	if err != nil || !ok {
		return false, err
	}
	wanted, err := parse(text)
	if err != nil {
		return false, fmt.Errorf("read %s of %s %s: %w", c.Version, obj.GetKind(), obj.GetName(), err)
	}
	running, err := c.running(obj)
	if err != nil {
		return false, err
	}
	for _, text := range running {
		v, err := parse(text)
		if err != nil {
			return false, fmt.Errorf("read running versions of %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		if v.LessThan(wanted) || !wanted.LessThan(v) && v.BuildMetadata() != wanted.BuildMetadata() {
			return true, nil
		}
	}
	return false, nil
}

// parse reads a semantic version, or one without a patch version.
func parse(text string) (*version.Version, error) {
	v, err := version.ParseSemantic(text)
	if err != nil {
		v, err = version.ParseGeneric(text)
	}
	return v, err
}

// IsScaling reports whether any counter of a control plane differs from the
// desired number, or is not reported for the current generation. A control plane
// that counts unavailable replicas may leave that counter out when it is zero.
func (c ControlPlane) IsScaling(obj *unstructured.Unstructured) (bool, error) {
	r, err := c.Counters(obj)
	if err != nil || r.Desired == nil {
		return false, err
	}
	if r.Available == nil && len(c.UnavailableReplicas.path) > 0 {
		r.Available = r.Desired
	}
	seen, ok, err := At[int64]("status.observedGeneration").Get(obj)
	if err != nil || (ok && seen < obj.GetGeneration()) {
		return true, err
	}
	for _, n := range []*int32{r.Current, r.Ready, r.UpToDate, r.Available} {
		if n == nil || *n != *r.Desired {
			return true, nil
		}
	}
	return false, nil
}

// running lists the versions that a control plane reports.
func (c ControlPlane) running(obj *unstructured.Unstructured) ([]string, error) {
	list, ok, err := c.Versions.Get(obj)
	if err != nil {
		return nil, err
	}
	if ok && len(list) > 0 {
		var out []string
		for _, v := range list {
			out = append(out, v.Version)
		}
		return out, nil
	}
	lowest, ok, err := c.StatusVersion.Get(obj)
	if err != nil || !ok || lowest == "" {
		return nil, err
	}
	return []string{lowest}, nil
}
