// SPDX-License-Identifier: Apache-2.0

// Package provider checks whether a provider implements its contract: each check is a
// sentence of docs/contract/infracluster.md and the pages of the other roles. `capstan
// provider test` prints the report of Examine; authors call Run from their own test,
// which starts a plane for them.
//
// Definitions can be checked in the files of a release. For the rest the suite creates
// the examples of the config on a management cluster where the provider runs: it gives an
// example a Cluster or a Machine as owner, as Cluster API does, pauses it, removes its
// status, resumes and deletes it, and observes what the provider does. All objects are in
// the suite's own namespaces, which are deleted afterwards, also if the run is ended
// early.
package provider
