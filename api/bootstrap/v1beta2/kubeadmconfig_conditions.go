// SPDX-License-Identifier: Apache-2.0

package v1beta2

import clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"

// Ready of a KubeadmConfig, set by the kubeadmconfig controller.
const (
	// KubeadmConfigReadyCondition is True when the certificates exist and the
	// data Secret is written; it summarizes the two conditions below.
	KubeadmConfigReadyCondition = clusterv1.ReadyCondition

	// KubeadmConfigReadyReason goes with True.
	KubeadmConfigReadyReason = clusterv1.ReadyReason

	// KubeadmConfigNotReadyReason goes with False.
	KubeadmConfigNotReadyReason = clusterv1.NotReadyReason

	// KubeadmConfigReadyUnknownReason goes with Unknown: no problem is known, but
	// a condition is not reported yet.
	KubeadmConfigReadyUnknownReason = clusterv1.ReadyUnknownReason
)

// CertificatesAvailable of a KubeadmConfig, set by the kubeadmconfig controller.
const (
	// KubeadmConfigCertificatesAvailableCondition is True when the cluster's
	// certificate authorities that the machine needs were found or created.
	KubeadmConfigCertificatesAvailableCondition = "CertificatesAvailable"

	// KubeadmConfigCertificatesAvailableReason goes with True.
	KubeadmConfigCertificatesAvailableReason = clusterv1.AvailableReason

	// KubeadmConfigCertificatesAvailableInternalErrorReason goes with Unknown or
	// False when the certificates could not be read.
	KubeadmConfigCertificatesAvailableInternalErrorReason = clusterv1.InternalErrorReason
)

// DataSecretAvailable of a KubeadmConfig, set by the kubeadmconfig controller.
const (
	// KubeadmConfigDataSecretAvailableCondition is True when the Secret with
	// the bootstrap data is written.
	KubeadmConfigDataSecretAvailableCondition = "DataSecretAvailable"

	// KubeadmConfigDataSecretAvailableReason goes with True.
	KubeadmConfigDataSecretAvailableReason = clusterv1.AvailableReason

	// KubeadmConfigDataSecretNotAvailableReason goes with False; the message
	// names what is awaited or what failed.
	KubeadmConfigDataSecretNotAvailableReason = clusterv1.NotAvailableReason
)

// Names of v1beta1 conditions and reasons, which are used only in
// status.deprecated.v1beta1 and in conversion.
const (
	// DataSecretAvailableV1Beta1Condition is the older DataSecretAvailable.
	DataSecretAvailableV1Beta1Condition clusterv1.ConditionType = "DataSecretAvailable"

	// WaitingForClusterInfrastructureV1Beta1Reason: the Cluster's infrastructure
	// is not provisioned yet.
	WaitingForClusterInfrastructureV1Beta1Reason = "WaitingForClusterInfrastructure"

	// DataSecretGenerationFailedV1Beta1Reason: the data could not be generated.
	DataSecretGenerationFailedV1Beta1Reason = "DataSecretGenerationFailed"

	// CertificatesAvailableV1Beta1Condition is the older CertificatesAvailable.
	CertificatesAvailableV1Beta1Condition clusterv1.ConditionType = "CertificatesAvailable"

	// CertificatesGenerationFailedV1Beta1Reason: certificates could not be
	// created.
	CertificatesGenerationFailedV1Beta1Reason = "CertificatesGenerationFailed"

	// CertificatesCorruptedV1Beta1Reason: a certificate Secret is incomplete.
	CertificatesCorruptedV1Beta1Reason = "CertificatesCorrupted"
)
