// SPDX-License-Identifier: Apache-2.0

// Package e2e runs Cluster API's own end-to-end specs, unchanged, against management
// planes of Capstan. "make peer-e2e" runs all of them.
//
// Each set-up is a plane: "local" has Capstan's simulated machines; "inmemory" has
// upstream's dev provider with its in-memory backend and upstream's test extension, which
// run as Pods of the plane. Templates and ClusterClasses are converted from upstream's own.
package e2e
