// SPDX-License-Identifier: Apache-2.0

// Package provider finds out whether a provider keeps its contract: each check
// is a sentence of docs/contract/infracluster.md and its neighbours.
// `capstan provider test` prints what Examine reports; authors call Run from a
// test of their own, which starts a plane for them.
//
// Definitions can be looked at in the files of a release. For the rest the
// suite makes what the config gives as an example on a management cluster where
// the provider runs: it owns it by a Cluster, or a Machine, as Cluster API does,
// pauses it, takes its status away, lets it go on and deletes it, and watches
// what the provider makes of it. All is in namespaces of the suite's own, which
// are gone afterwards, also if the run is ended early.
package provider
