// SPDX-License-Identifier: Apache-2.0

// Package issuer reports whether an Issuer or ClusterIssuer of the group
// cert-manager.io can issue certificates: self-signed issuers always can, CA
// issuers while their Secret has a certificate authority, and others never.
//
// Watches: Issuer or ClusterIssuer; the metadata of the Secret of its authority.
// Writes: condition Ready.
// Invariant: nothing is done where cert-manager's own definitions are installed.
package issuer
