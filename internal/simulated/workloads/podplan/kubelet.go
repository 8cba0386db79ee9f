// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sync sets the status of a Pod as the kubelet of its Node reports it now, or as
// the node controller does where no kubelet runs. ip returns a separate address for
// the Pod. Sync returns when time alone will change the status again.
func Sync(p *corev1.Pod, n Node, now time.Time, ip func() string) (again time.Time) {
	s := &p.Status
	if s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed {
		return time.Time{}
	}
	setCondition(s, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, now)
	if !n.Lives() {
		if s.Phase == corev1.PodRunning {
			setReady(s, false, "", now)
		}
		return time.Time{}
	}
	if s.StartTime == nil {
		s.StartTime = new(metav1.NewTime(now))
		s.HostIP, s.HostIPs = n.Address, []corev1.HostIP{{IP: n.Address}}
		address := n.Address
		if !p.Spec.HostNetwork {
			address = ip()
		}
		s.PodIP, s.PodIPs = address, []corev1.PodIP{{IP: address}}
		s.QOSClass = qosClass(&p.Spec)
	}
	s.Phase, s.ObservedGeneration = corev1.PodRunning, p.Generation
	code, ends := ending(p)
	if ends && p.Spec.RestartPolicy == corev1.RestartPolicyNever || ends && code == 0 && p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
		if at := s.StartTime.Add(seconds(p.Annotations[RunSecondsAnnotation])); now.Before(at) {
			again = at
		} else {
			finish(p, code, now)
			return time.Time{}
		}
	}
	runs := n.Ready == corev1.ConditionTrue
	crashes := code != 0 && again.IsZero()
	containers(p, crashes, now)
	reason := ""
	for _, g := range p.Spec.ReadinessGates {
		if !isTrue(s, g.ConditionType) {
			runs, reason = false, "ReadinessGatesNotReady"
		}
	}
	if crashes {
		runs, reason = false, "ContainersNotReady"
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized} {
		setCondition(s, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}, now)
	}
	setCondition(s, corev1.PodCondition{Type: corev1.ContainersReady, Status: status(!crashes)}, now)
	setReady(s, runs, reason, now)
	return again
}

// Stop ends the containers of a Pod that is being deleted, as a kubelet does while
// finalizers keep the Pod. It reports false if they had ended.
func Stop(p *corev1.Pod, now time.Time) bool {
	s := &p.Status
	if s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed {
		return false
	}
	if s.StartTime == nil {
		s.StartTime = new(metav1.NewTime(now))
	}
	code, _ := ending(p)
	finish(p, code, now)
	return true
}

// ending reports the exit code of a Pod's containers. Containers that are always
// restarted end only if they fail.
func ending(p *corev1.Pod) (code int32, ends bool) {
	n, _ := strconv.ParseInt(p.Annotations[ExitCodeAnnotation], 10, 32) // what is no number counts as zero
	return int32(n), p.Spec.RestartPolicy != corev1.RestartPolicyAlways || n != 0
}

func seconds(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 32) // what is no number is none
	return time.Duration(n) * time.Second
}

// containers sets the states of containers to those of a running Pod, or of one
// whose containers crash.
func containers(p *corev1.Pod, crash bool, now time.Time) {
	s := &p.Status
	if len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].Ready != crash {
		return
	}
	at := metav1.NewTime(now)
	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: *s.StartTime, FinishedAt: at}}
		if sidecar(c) {
			state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
		}
		s.InitContainerStatuses = append(s.InitContainerStatuses, containerStatus(c, state, sidecar(c)))
		s.InitContainerStatuses[i].Ready = true
	}
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
	if crash {
		state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: "the annotation " + ExitCodeAnnotation + " says that its containers fail",
		}}
	}
	for i := range p.Spec.Containers {
		c := containerStatus(&p.Spec.Containers[i], state, !crash)
		if crash {
			c.RestartCount = 1
		}
		s.ContainerStatuses = append(s.ContainerStatuses, c)
	}
}

func containerStatus(c *corev1.Container, state corev1.ContainerState, runs bool) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "simulated://" + c.Image, ContainerID: "simulated://" + c.Name, State: state, Ready: runs, Started: &runs,
	}
}

// finish ends a Pod whose containers have ended.
func finish(p *corev1.Pod, code int32, now time.Time) {
	s, at := &p.Status, metav1.NewTime(now)
	s.Phase = corev1.PodSucceeded
	end := corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed", StartedAt: *s.StartTime, FinishedAt: at}
	reason := "PodCompleted"
	if code != 0 {
		s.Phase, end.Reason, reason = corev1.PodFailed, "Error", "PodFailed"
	}
	s.ContainerStatuses = nil
	for i := range p.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, containerStatus(&p.Spec.Containers[i], corev1.ContainerState{Terminated: &end}, false))
	}
	setCondition(s, corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, Reason: reason}, now)
	setCondition(s, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}, now)
	setCondition(s, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: reason}, now)
	setReady(s, false, reason, now)
}

// Unscheduled notes why a Pod has no Node.
func Unscheduled(s *corev1.PodStatus, reason, message string, now time.Time) {
	setCondition(s, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message}, now)
}

func setReady(s *corev1.PodStatus, ready bool, reason string, now time.Time) {
	setCondition(s, corev1.PodCondition{Type: corev1.PodReady, Status: status(ready), Reason: reason}, now)
}

func status(is bool) corev1.ConditionStatus {
	if is {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func isTrue(s *corev1.PodStatus, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

// setCondition keeps the time of a condition whose status stays.
func setCondition(s *corev1.PodStatus, c corev1.PodCondition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now)
	for i, old := range s.Conditions {
		if old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// qosClass is how a kubelet treats a Pod when its Node runs short.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	any, guaranteed := false, true
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range list {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
				any = any || !request.IsZero() || !limit.IsZero()
				guaranteed = guaranteed && !limit.IsZero() && (request.IsZero() || request.Cmp(limit) == 0)
			}
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
