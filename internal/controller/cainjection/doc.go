// SPDX-License-Identifier: Apache-2.0

// Package cainjection puts certificate authorities where the API server looks for
// them, in objects that ask for it by an annotation of cert-manager.io: webhook
// configurations, definitions with a conversion webhook, APIServices.
//
// Watches: the metadata of one of these kinds; Certificate by annotation; the
// metadata of the Secret that the authority comes from.
// Writes: caBundle, wherever the object has one; nothing if that is as it should be.
// Invariant: nothing but certificates is taken from a Secret, and that only if the
// Secret allows it or is that of the Certificate that is named; nothing is done
// where cert-manager's own definitions are installed.
package cainjection
