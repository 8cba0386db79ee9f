// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestAContainerIsEndedByItsSignal(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		image, container string
		want             int
	}{
		"no signal set":           {"", "", 15},
		"the image":               {"SIGUSR1", "", 10},
		"without SIG":             {"quit", "", 3},
		"a number":                {"2", "", 2},
		"counted from the first":  {"SIGRTMIN+3", "", 37},
		"counted from the last":   {"SIGRTMAX-1", "", 63},
		"counted too far":         {"SIGRTMIN+99", "", 15},
		"no signal":               {"SIGNONE", "", 15},
		"no number of one":        {"0", "", 15},
		"the container":           {"SIGUSR1", "lifecycle: {stopSignal: SIGINT}", 2},
		"a container with others": {"SIGUSR1", "lifecycle: {preStop: {sleep: {seconds: 1}}}", 10},
	}
	for name, tc := range tests {
		c := builder.Parse[corev1.Container](t, "name: a\n"+tc.container)
		if got := StopSignal(c, Image{StopSignal: tc.image}); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}
