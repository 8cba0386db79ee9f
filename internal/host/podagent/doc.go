// SPDX-License-Identifier: Apache-2.0

// Package podagent is the node of a plane: it binds Pods to the Node, runs them in
// sandboxes, and reports their status.
//
// Watches: Pod; the Node; Secrets and ConfigMaps that Pods of the node name; events of
// sandboxes.
// Writes: Node, with the first Pod; the binding and the status of Pods; it completes
// the deletion of a Pod that has ended.
// Order of a Pod: volumes, sandbox, init containers one at a time, containers.
// Order of its end: hooks, signal, grace period, sandbox, volumes, logs, the Pod.
// Invariant: a Pod that needs what a sandbox cannot provide gets a condition that
// names the field, and none of its containers is started. A sandbox ends with the
// plane; the next plane starts the Pod's containers again, as after the restart of
// a node.
package podagent
