// SPDX-License-Identifier: Apache-2.0

// Package extensions calls runtime extensions: programs that answer hooks, by
// HTTPS, as the ExtensionConfigs say.
//
// The Registry knows the handlers, the Client calls them. What a caller may
// rely on:
//
// A call costs at most one request, one answer of bounded size, and the
// handler's timeout (10 s, at most 30 s) or what is left of the context,
// whichever is shorter. It runs in the caller's goroutine and starts none.
//
// CallAllExtensions calls one handler after the other, in the order of their
// names, and stops at the first error: an author can say what comes first, and
// a fleet sees the same order every time. It takes no longer than the sum of
// the timeouts; a server that does not answer is in backoff after that, so it
// costs that only once. All hooks may be called again after an error, hence
// handlers that came first are too.
//
// A handler's failurePolicy Ignore hides that it gave no usable answer: no
// connection, no HTTP 200, too much, too late, not JSON, another kind. It never
// hides that from a hook that must be answered, such as UpdateMachine; nor that
// it answered Failure, that the caller gave up, an address or CA bundle that makes
// no sense, or a mistake of our own. What is hidden counts as an empty Success.
//
// An extension with a namespaceSelector is called only for objects in
// namespaces that it selects, and for objects that are in no namespace, as
// admission webhooks are; a Namespace is matched by its own labels. That the
// labels cannot be read is an error, not a mismatch.
//
// A blocking answer is remembered until its time is over, and given again
// without a call, unless one of the extensions concerned was changed or
// removed, or others concern the object now.
//
// A removed ExtensionConfig is called no more from the moment Remove returns;
// calls under way end with an error that says so, so that nobody waits for an
// extension that hangs once it is removed. When a config changes, calls under
// way are left to end as they do.
package extensions
