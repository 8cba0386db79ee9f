// SPDX-License-Identifier: Apache-2.0

// Package certificate keeps the certificate that a Certificate of the group
// cert-manager.io asks for in its Secret, and renews it.
//
// Watches: Certificate, also those with the same Secret; Issuer and ClusterIssuer
// by reference; the metadata of the Secret, and of that of the authority.
// Writes: Secret data, labels and annotations; Certificate status.
// Invariant: a Secret that holds data of somebody else is left alone; nothing is
// done where cert-manager's own definitions are installed.
//
// The Secret stays when the Certificate goes, as what uses it may.
package certificate
