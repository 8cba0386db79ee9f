// SPDX-License-Identifier: Apache-2.0

// Package topology makes of a Cluster with a topology what its ClusterClass says:
// infrastructure, control plane, groups of workers, their templates and health
// checks, and steers it from version to version.
//
// Watches: Cluster; its ClusterClass; templates that the class names, and copies
// made of them; infrastructure and control plane by reference; MachineDeployment,
// MachinePool and MachineHealthCheck of a topology; MachineSet that goes; Machine
// while versions change; registrations of extensions.
// Writes: references, labels, annotations pending-hooks, upgrade-step and
// ok-to-delete of the Cluster; its condition TopologyReconciled and the plans of an
// upgrade; everything that carries label topology.cluster.x-k8s.io/owned, by
// server-side apply.
// Order: class, variables, what there is, versions; then hooks, what is wanted, the
// Cluster, its objects, what is wanted no more.
// It ends after versions if it sees what the one before it saw, which had nothing to
// do.
// Invariant: what is made is referred to before it is made, and a hook that is
// still to be called is marked before the step that it belongs to.
//
// A Cluster that is being deleted needs neither class nor variables. There is no
// finalizer: what belongs to a Cluster goes with it, and templates go when nothing
// refers to them any more.
package topology
