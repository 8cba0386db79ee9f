// SPDX-License-Identifier: Apache-2.0

// Package podspec decides what a Pod requires of its sandbox: whether the plane supports
// it, in which order its containers start, and with which command, environment, user and
// volumes. A field that no sandbox of a plane supports is refused with its path and a
// remedy. It also has the address ranges of Pods and Services of a plane.
package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Host is what Pods can read about the host that they run on.
type Host struct {
	// Node is its Node as it is stored; only name, labels, spec and allocatable
	// resources are read.
	Node *corev1.Node
	// Address is the value of status.hostIP.
	Address string
}

// Problem is one field of a Pod that is not supported.
type Problem struct {
	// Field is the path of the field, as in spec.containers[0].image.
	Field string
	// Detail is what is wrong, and the remedy.
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

// Container is one of a Pod's containers, of any list.
type Container struct {
	*corev1.Container
	// Field is its path: spec.initContainers[0].
	Field string
	// Init says that it is in the first list, and Sidecar that it is an init container
	// that continues to run next to the containers.
	Init, Sidecar bool
}

// Containers lists the containers of a Pod in the order in which they start.
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

// Image is the configuration of a container's image.
type Image struct {
	Entrypoint, Cmd, Env []string
	// User is a name or number, and after a colon the same for a group; "" is 0.
	User, Dir string
	// StopSignal is a name such as SIGTERM or a number; "" is SIGTERM.
	StopSignal string
}

// MissingError reports that an object that a container needs does not exist, or lacks a
// key: the container waits until it is created.
type MissingError struct{ Field, Kind, Name, Key string }

// Error implements error.
func (e *MissingError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("%s: %s %q has no key %q: add it, or mark the field optional", e.Field, e.Kind, e.Name, e.Key)
	}
	return fmt.Sprintf("%s: %s %q does not exist: create it, or mark the field optional", e.Field, e.Kind, e.Name)
}
