// SPDX-License-Identifier: Apache-2.0

// Package podstatus decides the status of a Pod that a plane runs: its phase, conditions
// and the states of its containers, as a kubelet reports them; and when a container that
// has exited is started again, and the result of probes.
package podstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// Reasons for which a container waits.
const (
	Creating         = "ContainerCreating"
	Initializing     = "PodInitializing"
	CrashLoopBackOff = "CrashLoopBackOff"
	ImagePull        = "ErrImagePull"
	ImagePullBackOff = "ImagePullBackOff"
	ImageNever       = "ErrImageNeverPull"
	ImageInvalid     = "InvalidImageName"
	Config           = "CreateContainerConfigError"
	Create           = "CreateContainerError"
	Run              = "RunContainerError"
)

const (
	oomKilled = "OOMKilled"  // the reason of an exit
	idPrefix  = "capstan://" // of the ID of a container
)

// Exit is the end of one run of a container.
type Exit struct {
	Code, Signal      int
	OOMKilled         bool
	Message           string // its termination message, or its last lines
	Started, Finished time.Time
	ID                string
}

// Container is the observed state of one container.
type Container struct {
	Name string
	// ImageID is the image by its digest, ID the current run; "" before there is one.
	ImageID, ID string
	Restarts    int32
	// Started is when the current run started, zero while there is none. Ended is the
	// exit of the latest run that has exited, Before that of the one before.
	Started       time.Time
	Ended, Before *Exit
	// Waiting and Message are why it does not run, if it should.
	Waiting, Message string
	// Over says that it is not started again.
	Over bool
	// Up and Ready are the results of the startup probe and the readiness probe.
	Up, Ready bool
}

func (c Container) running() bool   { return !c.Started.IsZero() }
func (c Container) succeeded() bool { return c.Over && c.Ended != nil && c.Ended.Code == 0 }

// Facts are the input of a status.
type Facts struct {
	Pod *corev1.Pod
	Now time.Time
	// HostIP and PodIP are addresses; PodIP is "" before there is one.
	HostIP, PodIP string
	// Accepted is when the node accepted the Pod, zero before.
	Accepted time.Time
	// Sandbox says that the sandbox exists, with its network.
	Sandbox bool
	// Unscheduled is why the Pod is not run here; "" if it is.
	Unscheduled string
	// Failed and FailedMessage are why it will never run again; "" if it may.
	Failed, FailedMessage string
	Containers            []Container // by name; missing ones have not started
}

func (f Facts) of(name string) Container {
	i := slices.IndexFunc(f.Containers, func(c Container) bool { return c.Name == name })
	if i < 0 {
		return Container{Name: name}
	}
	return f.Containers[i]
}

// Compute returns the status of a Pod. Fields of other writers stay.
func Compute(f Facts) corev1.PodStatus {
	old := &f.Pod.Status
	s := *old.DeepCopy()
	s.Phase, s.Reason, s.Message = phase(f), f.Failed, f.FailedMessage
	s.QOSClass, s.ObservedGeneration = podspec.QOS(f.Pod), f.Pod.Generation
	if !f.Accepted.IsZero() && s.StartTime == nil {
		s.StartTime = new(metav1.NewTime(f.Accepted))
	}
	if !f.Accepted.IsZero() {
		s.HostIP, s.HostIPs = f.HostIP, []corev1.HostIP{{IP: f.HostIP}}
	}
	if f.PodIP != "" {
		s.PodIP, s.PodIPs = f.PodIP, []corev1.PodIP{{IP: f.PodIP}}
	}
	if f.Unscheduled == "" {
		s.InitContainerStatuses, s.ContainerStatuses = nil, nil
		for _, c := range podspec.Containers(f.Pod) {
			list := &s.ContainerStatuses
			if c.Init {
				list = &s.InitContainerStatuses
			}
			*list = append(*list, state(f, c))
		}
	}
	for _, c := range conditions(f, s) {
		setCondition(&s.Conditions, c, f.Now)
	}
	return s
}

// phase summarizes a Pod.
func phase(f Facts) corev1.PodPhase {
	if f.Failed != "" {
		return corev1.PodFailed
	}
	policy := f.Pod.Spec.RestartPolicy
	var pending, running, ended, bad int
	for _, c := range podspec.Containers(f.Pod) {
		known := f.of(c.Name)
		switch {
		case c.Sidecar: // it does not keep a Pod running, and only delays its start
			if !known.running() && known.Ended == nil && !known.Over {
				pending++
			}
		case c.Init:
			if known.Over && !known.succeeded() {
				return corev1.PodFailed
			}
			if !known.succeeded() {
				pending++
			}
		case known.running():
			running++
		case known.Over:
			ended++
			if !known.succeeded() {
				bad++
			}
		case known.Ended != nil: // it will be started again
			running++
		default:
			pending++
		}
	}
	switch {
	case running == 0 && pending == 0 && ended > 0 && bad > 0:
		return corev1.PodFailed
	case running == 0 && pending == 0 && ended > 0 && policy != corev1.RestartPolicyAlways:
		return corev1.PodSucceeded
	case pending > 0:
		return corev1.PodPending
	case f.Unscheduled != "" || f.Accepted.IsZero():
		return corev1.PodPending
	}
	return corev1.PodRunning
}

// state is the status of a container.
func state(f Facts, c podspec.Container) corev1.ContainerStatus {
	known := f.of(c.Name)
	s := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: known.ImageID, RestartCount: known.Restarts,
		Started: new(known.running() && known.Up), Ready: known.running() && known.Up && known.Ready,
	}
	if c.Init && !c.Sidecar {
		s.Ready = known.succeeded()
	}
	id := known.ID
	switch {
	case known.running():
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(known.Started)}
		s.LastTerminationState.Terminated = terminated(known.Ended)
	case known.Over && known.Ended != nil:
		s.State.Terminated = terminated(known.Ended)
		s.LastTerminationState.Terminated = terminated(known.Before)
		id = known.Ended.ID
	default:
		reason, message := known.Waiting, known.Message
		if reason == "" {
			reason = Creating
			if len(f.Pod.Spec.InitContainers) > 0 {
				reason = Initializing
			}
		}
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
		s.LastTerminationState.Terminated = terminated(known.Ended)
		if known.Ended != nil {
			id = known.Ended.ID
		}
	}
	if id != "" {
		s.ContainerID = idPrefix + id
	}
	return s
}

func terminated(e *Exit) *corev1.ContainerStateTerminated {
	if e == nil {
		return nil
	}
	t := &corev1.ContainerStateTerminated{
		ExitCode: int32(e.Code), Signal: int32(e.Signal), Message: e.Message, Reason: "Error",
		StartedAt: metav1.NewTime(e.Started), FinishedAt: metav1.NewTime(e.Finished),
	}
	if e.ID != "" {
		t.ContainerID = idPrefix + e.ID
	}
	switch {
	case e.OOMKilled:
		t.Reason = oomKilled
	case e.Code == 0:
		t.Reason = "Completed"
	}
	return t
}

// conditions are those that a node reports for a Pod.
func conditions(f Facts, s corev1.PodStatus) []corev1.PodCondition {
	if f.Unscheduled != "" {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: f.Unscheduled}}
	}
	var uninitialized, unready []string
	for _, c := range podspec.Containers(f.Pod) {
		known := f.of(c.Name)
		switch {
		case c.Sidecar && !(known.running() && known.Up):
			uninitialized = append(uninitialized, c.Name)
		case c.Init && !c.Sidecar && !known.succeeded():
			uninitialized = append(uninitialized, c.Name)
		}
		if (!c.Init || c.Sidecar) && !(known.running() && known.Up && known.Ready) {
			unready = append(unready, c.Name)
		}
	}
	done := s.Phase == corev1.PodSucceeded
	initialized := condition(corev1.PodInitialized, done || len(uninitialized) == 0, "ContainersNotInitialized", "containers with incomplete status: ["+strings.Join(uninitialized, " ")+"]")
	containers := condition(corev1.ContainersReady, len(unready) == 0 && len(uninitialized) == 0, "ContainersNotReady", "containers with unready status: ["+strings.Join(unready, " ")+"]")
	if failed := s.Phase == corev1.PodFailed; done || failed {
		containers = condition(corev1.ContainersReady, false, "PodCompleted", "")
		if failed {
			containers.Reason = "PodFailed"
		}
	}
	if done {
		initialized.Reason = "PodCompleted"
	}
	ready := containers
	ready.Type = corev1.PodReady
	if closed := closedGates(f.Pod); closed != "" && ready.Status == corev1.ConditionTrue {
		ready = condition(corev1.PodReady, false, "ReadinessGatesNotReady", closed)
	}
	all := []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, f.Sandbox, "", ""), initialized, ready, containers,
		condition(corev1.PodScheduled, true, "", ""),
	}
	for i := range all {
		all[i].ObservedGeneration = f.Pod.Generation
	}
	return all
}

func condition(kind corev1.PodConditionType, holds bool, reason, message string) corev1.PodCondition {
	if holds {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}
}

// closedGates returns which of a Pod's readiness gates is not met; "" if all are.
func closedGates(pod *corev1.Pod) string {
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		if i < 0 {
			return fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType)
		}
		if pod.Status.Conditions[i].Status != corev1.ConditionTrue {
			return fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, pod.Status.Conditions[i].Status)
		}
	}
	return ""
}

func setCondition(all *[]corev1.PodCondition, c corev1.PodCondition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now)
	i := slices.IndexFunc(*all, func(have corev1.PodCondition) bool { return have.Type == c.Type })
	if i < 0 {
		*all = append(*all, c)
		return
	}
	if (*all)[i].Status == c.Status {
		c.LastTransitionTime = (*all)[i].LastTransitionTime
	}
	c.LastProbeTime = (*all)[i].LastProbeTime
	(*all)[i] = c
}
