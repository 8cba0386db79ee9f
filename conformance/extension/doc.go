// SPDX-License-Identifier: Apache-2.0

// Package extension finds out whether a running server of runtime extensions
// keeps the contract, docs/contract/extension.md: each check is a sentence of
// it. `capstan extension test` prints what Run reports; authors call Test from
// a test of their own.
//
// The suite calls the handlers, and calls have effects: a handler that orders
// addresses before a cluster is created will order them. The requests that come
// with the suite are about a Cluster capstan-conformance in a namespace of that
// name, so that a handler, or a person afterwards, can tell them from real
// ones. Config.Hooks limits which hooks are called, Config.Requests replaces the
// requests.
//
// Whatever the server does, a run comes to an end: each call has a timeout, each
// answer is read up to a limit, and a handler that does not answer its first
// call is left alone.
package extension
