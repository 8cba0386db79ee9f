// SPDX-License-Identifier: Apache-2.0

package draining

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/conditions"
)

// maxFailures is how many different reasons why evictions failed are reported.
const maxFailures = 5

// Refusal is an eviction that was refused.
type Refusal struct {
	Pod *corev1.Pod
	Why string
}

// Report is the message of a drain in progress: which Pods it waits for and why. It is
// empty when there is nothing to wait for.
func Report(started time.Time, p Plan, refused []Refusal) string {
	if p.Done() {
		return ""
	}
	lines := []string{fmt.Sprintf("Drain not completed yet (started at %s):", started.UTC().Format(time.RFC3339))}
	say := func(pods []*corev1.Pod, why string) {
		if len(pods) > 0 {
			lines = append(lines, fmt.Sprintf("* %s: %s", named(pods), why))
		}
	}
	say(p.Terminating, "deletionTimestamp set, but still not removed from the Node")
	say(accepted(p.Evict, refused), "eviction accepted, waiting for it to be removed from the Node")
	groups := byReason(refused)
	for _, g := range groups[:min(len(groups), maxFailures)] {
		say(g.pods, g.why)
	}
	others := 0
	for _, g := range groups[min(len(groups), maxFailures):] {
		others += len(g.pods)
	}
	if others > 0 {
		lines = append(lines, "* "+conditions.Count(others, "Pod")+" with other issues")
	}
	say(p.Completing, "waiting for completion")
	if len(p.Later) > 0 {
		lines = append(lines, "After above Pods have been removed from the Node, the following Pods will be evicted: "+names(p.Later))
	}
	if len(p.CompletingLater) > 0 {
		lines = append(lines, "After above Pods have been removed from the Node, waiting for the following Pods to complete without eviction: "+names(p.CompletingLater))
	}
	return strings.Join(lines, "\n")
}

func accepted(asked []*corev1.Pod, refused []Refusal) (out []*corev1.Pod) {
	for _, pod := range asked {
		if !slices.ContainsFunc(refused, func(r Refusal) bool { return r.Pod == pod }) {
			out = append(out, pod)
		}
	}
	return out
}

type group struct {
	why  string
	pods []*corev1.Pod
}

// byReason groups refusals, the reason with most Pods first.
func byReason(refused []Refusal) (out []group) {
	for _, r := range refused {
		at := slices.IndexFunc(out, func(g group) bool { return g.why == r.Why })
		if at < 0 {
			out = append(out, group{why: r.Why})
			at = len(out) - 1
		}
		out[at].pods = append(out[at].pods, r.Pod)
	}
	slices.SortStableFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.pods), len(a.pods)), strings.Compare(a.why, b.why))
	})
	return out
}

func named(pods []*corev1.Pod) string {
	if len(pods) == 1 {
		return "Pod " + Key(pods[0])
	}
	return "Pods " + names(pods)
}

func names(pods []*corev1.Pod) string {
	var keys []string
	for _, p := range pods {
		keys = append(keys, Key(p))
	}
	return conditions.Names(keys)
}
