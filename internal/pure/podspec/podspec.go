// SPDX-License-Identifier: Apache-2.0

// Package podspec decides what a Pod asks of the sandbox that runs it: whether it
// can be had at all, in which order its containers start, and with which
// command, environment, user and volumes. What a Pod asks that no sandbox of a
// plane has is refused with the path of the field and a remedy.
package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Host is what Pods may know of where they run.
type Host struct {
	// Node is its Node as it is stored; only name, labels, spec and allocatable
	// resources are read.
	Node *corev1.Node
	// Address is what status.hostIP shows.
	Address string
}

// Problem is one thing that a Pod asks and cannot have.
type Problem struct {
	// Field is the path of the field, as in spec.containers[0].image.
	Field string
	// Detail says what is wrong, and what to do instead.
	Detail string
}

// String implements fmt.Stringer.
func (p Problem) String() string { return p.Field + ": " + p.Detail }

// Describe lists problems in one line.
func Describe(all []Problem) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}

// Container is one of a Pod's, of whichever list.
type Container struct {
	*corev1.Container
	// Field is where it stands: spec.initContainers[0].
	Field string
	// Init says that it is of the first list, and Sidecar that it is one of those
	// and goes on beside the containers.
	Init, Sidecar bool
}

// Containers lists those of a Pod in the order in which they start.
func Containers(pod *corev1.Pod) []Container {
	var all []Container
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		all = append(all, Container{Container: c, Field: fmt.Sprintf("spec.initContainers[%d]", i), Init: true, Sidecar: sidecar})
	}
	for i := range pod.Spec.Containers {
		all = append(all, Container{Container: &pod.Spec.Containers[i], Field: fmt.Sprintf("spec.containers[%d]", i)})
	}
	return all
}

// Image is what the configuration of a container's image says.
type Image struct {
	Entrypoint, Cmd, Env []string
	// User is a name or number, and after a colon those of a group; "" is 0.
	User, Dir string
	// StopSignal is a name as SIGTERM or a number; "" is SIGTERM.
	StopSignal string
}

// MissingError tells that a container needs an object that is not there, or lacks
// a key: that waits until somebody makes it.
type MissingError struct{ Field, Kind, Name, Key string }

// Error implements error.
func (e *MissingError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("%s: %s %q has no key %q: add it, or mark the field optional", e.Field, e.Kind, e.Name, e.Key)
	}
	return fmt.Sprintf("%s: %s %q does not exist: create it, or mark the field optional", e.Field, e.Kind, e.Name)
}
