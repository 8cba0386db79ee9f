// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersionHook names one version of a hook.
type GroupVersionHook struct {
	Group, Version, Hook string
}

// GroupHook names a hook in all its versions.
type GroupHook struct {
	Group, Hook string
}

// String is group/version/hook.
func (h GroupVersionHook) String() string { return h.Group + "/" + h.Version + "/" + h.Hook }

// GroupHook leaves out the version.
func (h GroupVersionHook) GroupHook() GroupHook { return GroupHook{Group: h.Group, Hook: h.Hook} }

// GroupVersion leaves out the hook.
func (h GroupVersionHook) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: h.Group, Version: h.Version}
}

// Path is where the handler of an extension answers the hook, below the
// extension's URL. A singleton has no handler: leave it empty.
func (h GroupVersionHook) Path(handler string) string {
	p := "/" + h.Group + "/" + h.Version + "/" + strings.ToLower(h.Hook)
	if handler != "" {
		p += "/" + strings.ToLower(handler)
	}
	return p
}

// String is group/hook.
func (h GroupHook) String() string { return h.Group + "/" + h.Hook }

// Track is how stable a version is. A higher one is more stable.
type Track int

// The tracks, in order of stability.
const (
	Alpha Track = iota
	Beta
	GA
)

// String is alpha, beta or GA.
func (t Track) String() string {
	switch t {
	case Alpha:
		return "alpha"
	case Beta:
		return "beta"
	default:
		return "GA"
	}
}

var versionForm = regexp.MustCompile(`^v[1-9][0-9]*(?:(alpha|beta)[1-9][0-9]*)?$`)

// TrackOf returns the track of a version such as v1alpha1, v2beta1 or v1.
func TrackOf(version string) (Track, error) {
	m := versionForm.FindStringSubmatch(version)
	switch {
	case m == nil:
		return 0, fmt.Errorf("version %q is not of the form v1, v1beta1 or v1alpha1", version)
	case m[1] == "alpha":
		return Alpha, nil
	case m[1] == "beta":
		return Beta, nil
	default:
		return GA, nil
	}
}
