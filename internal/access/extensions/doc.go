// SPDX-License-Identifier: Apache-2.0

// Package extensions calls runtime extensions: HTTPS servers that answer hooks and
// that are configured by ExtensionConfigs.
//
// The Registry stores the handlers, the Client calls them. It guarantees to
// callers:
//
// A call costs at most one request, one response of bounded size, and the handler's
// timeout (10 s, at most 30 s) or the remaining time of the context, whichever is
// shorter. It runs in the caller's goroutine and starts none.
//
// CallAllExtensions calls one handler at a time, in the order of their names, and
// stops at the first error: an author can choose the order, and a fleet sees the
// same order every time. It takes no longer than the sum of the timeouts; a server
// that does not answer is in backoff after that, so it costs its timeout only once.
// All hooks may be called again after an error, so the handlers before the error
// are called again, too.
//
// A handler's failurePolicy Ignore hides the lack of a usable response: no
// connection, no HTTP 200, too large, too late, not JSON, another kind. It never
// hides this for a hook that requires a response, such as UpdateMachine; nor does
// it hide a response of Failure, a cancellation by the caller, an invalid address
// or CA bundle, or an error in this program. A hidden error counts as an empty
// Success.
//
// An extension with a namespaceSelector is called only for objects in namespaces
// that it selects, and for objects without a namespace, as for admission webhooks;
// a Namespace is matched by its own labels. If the labels cannot be read, that is
// an error, not a mismatch.
//
// A blocking response is cached until it expires, and returned again without a
// call, unless one of its extensions was changed or removed, or other extensions
// match the object now.
//
// A removed ExtensionConfig is no longer called once Remove returns; calls in
// progress end with an error that names the removal, so that no caller waits for a
// hanging extension after its removal. When a config changes, calls in progress are
// not affected.
//
// InPlaceHooks are the extensions that update Machines in place. Package pure/inplace
// decides the content of requests and the meaning of responses.
package extensions
