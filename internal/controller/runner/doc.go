// SPDX-License-Identifier: Apache-2.0

// Package runner is the node of a plane: it binds Pods to it, has a sandbox run
// what they ask for, and says what becomes of them.
//
// Watches: Pod; the Node; Secrets and ConfigMaps that Pods of the node name; what happens in
// sandboxes.
// Writes: Node, when there is a first Pod; the binding and the status of Pods; a
// Pod that has ended is deleted for good.
// Order of a Pod: volumes, sandbox, init containers one by one, containers.
// Order of its end: hooks, signal, grace period, sandbox, volumes, logs, the Pod.
// Invariant: what a sandbox cannot give is refused by a condition that names the
// field, and no Pod of it is started.
// A sandbox ends with the plane; the next one starts the Pod's containers again,
// as after the restart of a node.
package runner
