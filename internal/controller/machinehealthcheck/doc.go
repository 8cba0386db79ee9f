// SPDX-License-Identifier: Apache-2.0

// Package machinehealthcheck finds the unhealthy Machines of a MachineHealthCheck
// and requests their remediation, by their owners or by an external controller.
//
// Watches: MachineHealthCheck, and others of its Cluster; Machine by selector;
// Cluster; the template of requests, by reference; Node and the connection in
// the workload cluster.
// Writes: MachineHealthCheck cluster label, owner and status; of Machines the
// condition HealthCheckSucceeded, and OwnerRemediated or ExternallyRemediated
// when it requests remediation; requests to external controllers.
// Phases: nodes, template, remediate; package healthcheck decides.
// Invariant: the controller deletes no Machine, and marks none as unhealthy by a
// status from before its workload cluster started to answer.
package machinehealthcheck
