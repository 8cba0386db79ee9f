// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestAPodSaysWhyItIsNotReady(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ pod, want string }{
		"it is ready":                  {"status: {conditions: [{type: Ready, status: 'True'}], containerStatuses: [{name: a, state: {running: {}}, lastState: {terminated: {exitCode: 1}}}]}", ""},
		"it has ended well":            {"status: {phase: Succeeded, containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}]}", ""},
		"not observed yet":             {"{}", "it has not been started"},
		"no node takes it":             {"status: {conditions: [{type: PodScheduled, status: 'False', message: spec.hostNetwork is not given}]}", "it has no node: spec.hostNetwork is not given"},
		"it was evicted":               {"status: {phase: Failed, reason: Evicted, message: out of disk}", "Evicted: out of disk"},
		"an image is not there":        {"status: {containerStatuses: [{name: manager, state: {waiting: {reason: ErrImagePull, message: not found}}}]}", "container manager: ErrImagePull: not found"},
		"an image is being pulled":     {"status: {containerStatuses: [{name: manager, image: 'r.io/m:v1', state: {waiting: {reason: ContainerCreating}}}]}", "container manager: ContainerCreating, of image r.io/m:v1"},
		"a volume is awaited":          {"status: {containerStatuses: [{name: manager, image: 'r.io/m:v1', state: {waiting: {reason: ContainerCreating, message: no Secret}}}]}", "container manager: ContainerCreating: no Secret"},
		"one crashes and says it once": {"status: {containerStatuses: [{name: manager, state: {waiting: {reason: CrashLoopBackOff, message: 'back-off; it wrote last: panic: no key'}}, lastState: {terminated: {exitCode: 1, message: 'panic: no key'}}}]}", "container manager: CrashLoopBackOff: back-off; it wrote last: panic: no key"},
		"one crashes on another node":  {"status: {containerStatuses: [{name: manager, state: {waiting: {reason: CrashLoopBackOff, message: back-off}}, lastState: {terminated: {exitCode: 1, reason: Error, message: 'panic: no key'}}}]}", "container manager: CrashLoopBackOff: back-off; it ended with status 1: panic: no key"},
		"one has crashed and runs":     {"status: {containerStatuses: [{name: manager, restartCount: 3, state: {running: {}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}", "container manager: it runs but is not ready, after 3 restarts; it ended with status 137 (OOMKilled)"},
		"one is not ready yet":         {"status: {containerStatuses: [{name: a, ready: true, state: {running: {}}}, {name: b, state: {running: {}}}]}", "container b: it runs but is not ready"},
		"one that comes first fails":   {"status: {initContainerStatuses: [{name: first, state: {terminated: {exitCode: 2}}}], containerStatuses: [{name: a, state: {waiting: {reason: PodInitializing}}}]}", "container first: it ended with status 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Trouble(builder.Parse[corev1.Pod](t, tc.pod)); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}
