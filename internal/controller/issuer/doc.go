// SPDX-License-Identifier: Apache-2.0

// Package issuer says of an Issuer or ClusterIssuer of the group cert-manager.io
// whether it can issue certificates: those that sign themselves always can, those
// of an authority while their Secret holds one, and others never.
//
// Watches: Issuer or ClusterIssuer; the metadata of the Secret of its authority.
// Writes: condition Ready.
// Invariant: nothing is done where cert-manager's own definitions are installed.
package issuer
