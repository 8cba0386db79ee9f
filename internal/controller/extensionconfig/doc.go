// SPDX-License-Identifier: Apache-2.0

// Package extensionconfig discovers the handlers of each runtime extension, stores
// them in its ExtensionConfig, and registers them for calls.
//
// Watches: ExtensionConfig; the metadata of each Secret that an ExtensionConfig
// names in runtime.cluster.x-k8s.io/inject-ca-from-secret, with one watch for each
// Secret, as long as it is named.
// Writes: ExtensionConfig spec.clientConfig.caBundle (only with that
// annotation), status; the registry of extensions in this process.
//
// An extension is discovered when its spec, its annotations or the certificate
// authority in its Secret change, every ten minutes, and after a failure with a
// backoff from one second to five minutes.
//
// A failure removes nothing: the last discovered handlers stay in the status, and
// registered with the current spec, so that a handler with failurePolicy Fail
// continues to block instead of being skipped. Discovered is False with the reason.
//
// A paused ExtensionConfig stays registered as it was when it was paused. After a
// restart it is registered from its status with the current spec.
//
// An ExtensionConfig that is being deleted, was deleted, or lost the label by which
// the manager filters, is no longer called from the moment that the watch shows the
// change.
//
// A manager without the core provider follows the controller in another process: it
// registers what that process has written to the status, and writes nothing itself.
package extensionconfig
