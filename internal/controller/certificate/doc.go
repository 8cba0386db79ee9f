// SPDX-License-Identifier: Apache-2.0

// Package certificate stores the certificate that a Certificate of the group
// cert-manager.io requests in its Secret, and renews it.
//
// Watches: Certificate, also those with the same Secret; Issuer and ClusterIssuer
// by reference; the metadata of the Secret, and of that of the authority.
// Writes: Secret data, labels and annotations; Certificate status.
// Invariant: a Secret with data of another owner is not changed; nothing is done
// where cert-manager's own definitions are installed.
//
// The Secret stays when the Certificate is deleted, because its users may still
// run.
//
// A second controller, IssuerReconciler, reports whether an Issuer or ClusterIssuer can
// issue certificates: self-signed issuers always can, CA issuers while their Secret has
// a certificate authority, and others never.
//
// Watches: Issuer or ClusterIssuer; the metadata of the Secret of its authority.
// Writes: condition Ready of the issuer.
//
// A third controller, InjectionReconciler, writes certificate authorities to the fields
// from which the API server reads them, in objects that request it by an annotation of
// cert-manager.io: webhook configurations, definitions with a conversion webhook,
// APIServices.
//
// Watches: the metadata of one of these kinds; Certificate by annotation; the
// metadata of the Secret that has the authority.
// Writes: caBundle, wherever the object has one; nothing if it is as desired.
// Invariant: only certificates are read from a Secret, and only if the Secret
// allows it or belongs to the named Certificate.
package certificate
