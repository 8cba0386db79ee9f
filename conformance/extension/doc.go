// SPDX-License-Identifier: Apache-2.0

// Package extension checks whether a running server of runtime extensions implements the
// contract, docs/contract/extension.md: each check is a sentence of it. `capstan
// extension test` prints the report of Run; authors call Test from their own test.
//
// The suite calls the handlers, and calls have effects: a handler that orders addresses
// before a cluster is created will order them. The built-in requests are about a Cluster
// capstan-conformance in a namespace of that name, so that a handler, or a person
// afterwards, can distinguish them from real ones. Config.Hooks limits which hooks are
// called, Config.Requests replaces the requests.
//
// A run always ends, regardless of the server: each call has a timeout, each answer is
// read up to a limit, and a handler that does not answer its first call is not called
// again.
package extension
