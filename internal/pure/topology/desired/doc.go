// SPDX-License-Identifier: Apache-2.0

// Package desired computes the objects that a Cluster with a topology is to have.
//
// Each is what is wanted of an object, and no more: the fields of others are not
// in it. What comes from a template of the class is patched; names, labels,
// replicas, versions and references are set here and no patch changes them.
//
// Labels and annotations of the topology win over those of the class, those over
// the template's own, and what objects are found by over all. Class and topology
// speak of a control plane or a group of workers and its machines, not of the
// templates that these are made from.
//
// Names come from the UID of the Cluster, so that what was made is found again
// whatever became of the one who made it. An object keeps its name. A template
// keeps it while its spec is the same to the server; else another takes its place
// whose name comes from the spec.
//
// One part that fails does not stop the others. What exists and cannot be brought
// up to date, or has to wait for an upgrade, keeps its templates and its version,
// so that nothing is rolled out; the rest of it follows the topology: replicas,
// metadata, timeouts, taints, readiness gates, health checks. One that is not
// there is not made. Only if nothing can be said of the whole, or an extension
// finds the whole invalid, is nothing to be written.
//
// Nothing that is given is changed.
package desired
