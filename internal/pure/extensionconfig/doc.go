// SPDX-License-Identifier: Apache-2.0

// Package extensionconfig holds the decisions about runtime extensions that need no call:
// whether an extension's answer to discovery can be registered, what a request contains,
// whether an answer can be used, how several answers combine, and the status of an
// extension after discovery.
//
// Its rules:
//
// The full name of a handler is its own name, a dot, and the name of its
// ExtensionConfig. Its own name is a DNS label, hence lower-case, so that no two
// handlers of an extension share a path. All handlers of an extension are registered or
// none.
//
// Settings of a request override those of the ExtensionConfig, key by key.
//
// An answer is usable if it is of the requested kind, its status is Success or Failure,
// and its retry is not negative and not longer than a day.
//
// Several successful answers are combined into one: Success, their messages in the order
// of the handlers' names, and the shortest wait that one of them requests.
package extensionconfig
