// SPDX-License-Identifier: Apache-2.0

// Package extensionconfig asks each runtime extension what it can do, keeps the
// answer in its ExtensionConfig, and registers it for calls.
//
// Watches: ExtensionConfig; the metadata of each Secret that one names in
// runtime.cluster.x-k8s.io/inject-ca-from-secret, one watch a Secret, for as
// long as it is named.
// Writes: ExtensionConfig spec.clientConfig.caBundle (only with that
// annotation), status; the registry of extensions in this process.
//
// An extension is asked when its spec, its annotations or the certificate
// authority in its Secret change, every ten minutes, and after a failure again
// with growing waits from one second to five minutes.
//
// A failure takes nothing away: the handlers known last stay in the status, and
// registered with the spec of now, so that a handler with failurePolicy Fail
// goes on blocking instead of being passed over. Discovered is False and says
// why.
//
// A paused ExtensionConfig stays registered as it was when it was paused. After
// a restart it is registered from its status with the spec of now.
//
// An ExtensionConfig that is being deleted, is gone, or has lost the label that
// the manager filters by, is called no more from the moment that the watch shows
// it.
//
// A manager without the core provider follows the controller in another: it
// registers what that has written in the status, and writes nothing itself.
package extensionconfig
