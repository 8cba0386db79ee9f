// SPDX-License-Identifier: Apache-2.0

// Package cainjection writes certificate authorities to the fields from which the
// API server reads them, in objects that request it by an annotation of
// cert-manager.io: webhook configurations, definitions with a conversion webhook,
// APIServices.
//
// Watches: the metadata of one of these kinds; Certificate by annotation; the
// metadata of the Secret that has the authority.
// Writes: caBundle, wherever the object has one; nothing if it is as desired.
// Invariant: only certificates are read from a Secret, and only if the Secret
// allows it or belongs to the named Certificate; nothing is done where
// cert-manager's own definitions are installed.
package cainjection
