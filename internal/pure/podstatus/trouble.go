// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Trouble returns why a Pod of any node is not ready, according to its status, with the
// last output of its containers if it is available; "" if the Pod is ready, or has
// succeeded.
func Trouble(pod *corev1.Pod) string {
	var all []string
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return ""
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			all = append(all, "it has no node: "+c.Message)
		}
	}
	if pod.Status.Phase == corev1.PodSucceeded {
		return ""
	}
	if why := join(pod.Status.Reason, pod.Status.Message); why != "" {
		all = append(all, why)
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if what := trouble(c); what != "" {
			all = append(all, "container "+c.Name+": "+what)
		}
	}
	return cmp.Or(strings.Join(all, "; "), "it has not been started")
}

func trouble(c corev1.ContainerStatus) string {
	waiting, last := c.State.Waiting, cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
	switch {
	case waiting != nil && last != nil && waiting.Reason == CrashLoopBackOff && (last.Message == "" || !strings.Contains(waiting.Message, strings.TrimSpace(last.Message))):
		return join(waiting.Reason, waiting.Message) + "; " + lastRun(last)
	case waiting != nil && waiting.Reason == Initializing && waiting.Message == "":
		return "" // another container has more detail
	case waiting != nil && waiting.Reason == Creating && waiting.Message == "" && c.Image != "":
		return waiting.Reason + ", of image " + c.Image // its registry may be slow
	case waiting != nil:
		return join(waiting.Reason, waiting.Message)
	case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
		return lastRun(last)
	case c.State.Running != nil && !c.Ready && last != nil:
		return fmt.Sprintf("it runs but is not ready, after %d restarts; %s", c.RestartCount, lastRun(last))
	case c.State.Running != nil && !c.Ready:
		return "it runs but is not ready"
	}
	return ""
}

// lastRun describes how a run ended.
func lastRun(t *corev1.ContainerStateTerminated) string {
	said := fmt.Sprintf("it ended with status %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		said += " (" + t.Reason + ")"
	}
	return join(said, strings.TrimSpace(t.Message))
}

func join(what, message string) string {
	if what != "" && message != "" {
		return what + ": " + message
	}
	return what + message
}
