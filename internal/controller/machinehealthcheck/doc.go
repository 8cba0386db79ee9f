// SPDX-License-Identifier: Apache-2.0

// Package machinehealthcheck finds the unhealthy Machines of a
// MachineHealthCheck and has them remediated, by their owners or by an external
// controller.
//
// Watches: MachineHealthCheck, and others of its Cluster; Machine by selector;
// Cluster; the template of requests, by reference; Node and the connection in
// the workload cluster.
// Writes: MachineHealthCheck cluster label, owner and status; of Machines the
// condition HealthCheckSucceeded, and OwnerRemediated or ExternallyRemediated
// when it asks for remediation; requests to external controllers.
// Phases: nodes, template, remediate; package healthcheck decides.
// Invariant: no Machine is deleted here, and none called unhealthy by news from
// before its cluster began to answer.
package machinehealthcheck
