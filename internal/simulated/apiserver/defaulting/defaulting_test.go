// SPDX-License-Identifier: Apache-2.0

package defaulting

import "testing"

// What else is filled, testenv compares with an API server.
func TestAnImageIsPulledByItsTag(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"nginx": "Always", "nginx:latest": "Always", "nginx:1.27": "IfNotPresent", "localhost:5000/nginx": "Always",
		"localhost:5000/nginx:1": "IfNotPresent", "nginx@sha256:0123": "IfNotPresent", "nginx:latest@sha256:0123": "IfNotPresent", "": "Always",
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%q: %s, want %s", image, got, want)
		}
	}
}

func TestNothingIsFilledWhereItsPlaceIsMissingOrOfAnotherKind(t *testing.T) {
	t.Parallel()
	o := map[string]any{"list": "text", "deep": []any{"text", map[string]any{"there": map[string]any{}}}}
	fill(o, []string{"list[]", "x"}, 1)
	fill(o, []string{"missing", "x"}, 1)
	fill(o, []string{"list+", "x"}, 1)
	fill(o, []string{"deep[]", "there", "x"}, 1)
	if there := objects(o["deep"])[0]["there"].(map[string]any); there["x"] != 1 || len(o) != 2 || o["list"] != "text" {
		t.Errorf("got %v", o)
	}
}
