// SPDX-License-Identifier: Apache-2.0

// Package extensions holds what can be decided about runtime extensions
// without calling one: whether what an extension says of itself can be
// registered, what a request to it holds, whether its answer can be used, what
// several answers mean together, and what to tell of an extension that was
// asked what it can do.
//
// Its rules:
//
// A handler is known as its own name, a dot, and the name of its
// ExtensionConfig. Its own name is a DNS label, hence lower-case, so that no
// two handlers of an extension share a path. All handlers of an extension are
// registered or none.
//
// Settings of a request override those of the ExtensionConfig, key by key.
//
// An answer is usable if it is of the kind that was asked for, says Success or
// Failure, and asks to wait for no less than nothing and no more than a day.
//
// Several successful answers are one: Success, their messages in the order of
// the handlers' names, and the shortest wait that one of them asks for.
package extensions
