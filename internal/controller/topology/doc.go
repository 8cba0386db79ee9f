// SPDX-License-Identifier: Apache-2.0

// Package topology creates the objects that the ClusterClass of a Cluster with a
// topology defines: infrastructure, control plane, groups of workers, their
// templates and health checks. It also upgrades them from version to version.
//
// Watches: Cluster; its ClusterClass; templates that the class names, and copies
// of them; infrastructure and control plane by reference; MachineDeployment,
// MachinePool and MachineHealthCheck of a topology; deleted MachineSets; Machine
// while versions change; registrations of extensions.
// Writes: references, labels, annotations pending-hooks, upgrade-step and
// ok-to-delete of the Cluster; its condition TopologyReconciled and the plans of an
// upgrade; everything with label topology.cluster.x-k8s.io/owned, by
// server-side apply.
// Order: class, variables, current state, versions; then hooks, desired state, the
// Cluster, its objects, objects that are no longer desired.
// The reconcile ends after versions if it has read the same as the previous one,
// which had nothing to write. Invariant: a reference is stored before its object is
// created, and a pending hook is marked before the step to which it belongs.
//
// A Cluster that is being deleted needs neither class nor variables. There is no
// finalizer: the objects of a Cluster are deleted with it, and templates are
// deleted when no object refers to them any longer.
package topology
