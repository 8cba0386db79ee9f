// SPDX-License-Identifier: Apache-2.0

// Package capstan is Cluster API, standalone: one program that provisions and
// runs fleets of Kubernetes clusters. This package holds only the tests that
// keep the house in order; ARCHITECTURE.md is the map.
package capstan
