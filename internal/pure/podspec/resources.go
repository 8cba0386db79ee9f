// SPDX-License-Identifier: Apache-2.0

package podspec

import corev1 "k8s.io/api/core/v1"

// Limits are the maximum resources of a sandbox or a container: 0 is no limit.
type Limits struct{ Memory, MilliCPU int64 }

// LimitsOf are the limits of a container.
func LimitsOf(c *corev1.Container) Limits {
	var l Limits
	if q, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
		l.Memory = q.Value()
	}
	if q, ok := c.Resources.Limits[corev1.ResourceCPU]; ok {
		l.MilliCPU = q.MilliValue()
	}
	return l
}

// Scratch is how many bytes a container can write to its root; 0 is the default limit.
func Scratch(c *corev1.Container) int64 {
	q := c.Resources.Limits[corev1.ResourceEphemeralStorage]
	return q.Value()
}

// PodLimits are the limits of a whole Pod: the sum of the containers that run
// concurrently, or of those that start before them if that is more. If one of its
// containers has no limit for a resource, neither has the Pod.
func PodLimits(pod *corev1.Pod) Limits {
	var sum, beside, most Limits
	unlimited := map[bool]bool{}
	for _, c := range Containers(pod) {
		l := LimitsOf(c.Container)
		unlimited[true] = unlimited[true] || l.Memory == 0
		unlimited[false] = unlimited[false] || l.MilliCPU == 0
		switch {
		case c.Sidecar:
			beside = Limits{beside.Memory + l.Memory, beside.MilliCPU + l.MilliCPU}
		case c.Init:
			most = Limits{max(most.Memory, beside.Memory+l.Memory), max(most.MilliCPU, beside.MilliCPU+l.MilliCPU)}
		default:
			sum = Limits{sum.Memory + l.Memory, sum.MilliCPU + l.MilliCPU}
		}
	}
	all := Limits{max(most.Memory, sum.Memory+beside.Memory), max(most.MilliCPU, sum.MilliCPU+beside.MilliCPU)}
	if unlimited[true] {
		all.Memory = 0
	}
	if unlimited[false] {
		all.MilliCPU = 0
	}
	return all
}

// QOS is the class of a Pod, according to its resources.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	any, all := false, true
	for _, c := range Containers(pod) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, limited := c.Resources.Limits[name]
			request, requested := c.Resources.Requests[name]
			any = any || limited && !limit.IsZero() || requested && !request.IsZero()
			all = all && limited && !limit.IsZero() && (!requested || request.Cmp(limit) == 0)
		}
	}
	switch {
	case all:
		return corev1.PodQOSGuaranteed
	case any:
		return corev1.PodQOSBurstable
	}
	return corev1.PodQOSBestEffort
}
