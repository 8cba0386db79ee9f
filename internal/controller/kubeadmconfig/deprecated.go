// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// reportDeprecated sets the fields for clients of v1beta1, after the rest of the
// status.
func reportDeprecated(s *state, err error) {
	st := ptr.Deref(ptr.Deref(s.config.Status.Deprecated, bootstrapv1.KubeadmConfigDeprecatedStatus{}).V1Beta1, bootstrapv1.KubeadmConfigV1Beta1DeprecatedStatus{})
	st.Conditions = v1beta1conditions.Set(st.Conditions, s.now, deprecatedDataSecret(s, err))
	if c := deprecatedCertificates(s); c != nil {
		st.Conditions = v1beta1conditions.Set(st.Conditions, s.now, *c)
	}
	st.Conditions = v1beta1conditions.Set(st.Conditions, s.now, v1beta1conditions.Ready(st.Conditions, 0,
		bootstrapv1.DataSecretAvailableV1Beta1Condition, bootstrapv1.CertificatesAvailableV1Beta1Condition))
	s.config.Status.Deprecated = &bootstrapv1.KubeadmConfigDeprecatedStatus{V1Beta1: &st}
}

func deprecatedDataSecret(s *state, err error) clusterv1.Condition {
	const t = bootstrapv1.DataSecretAvailableV1Beta1Condition
	why := conditions.Message(s.config, bootstrapv1.KubeadmConfigDataSecretAvailableCondition)
	switch {
	case s.made():
		return v1beta1conditions.True(t)
	case err != nil:
		return v1beta1conditions.False(t, clusterv1.ConditionSeverityWarning, bootstrapv1.DataSecretGenerationFailedV1Beta1Reason, why)
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return v1beta1conditions.False(t, clusterv1.ConditionSeverityInfo, bootstrapv1.WaitingForClusterInfrastructureV1Beta1Reason, why)
	}
	return v1beta1conditions.False(t, clusterv1.ConditionSeverityInfo, clusterv1.WaitingForControlPlaneAvailableV1Beta1Reason, why)
}

// deprecatedCertificates is nil while the certificates have not been read, as the newer
// condition is. Without a control plane object they are created here, otherwise
// only read.
func deprecatedCertificates(s *state) *clusterv1.Condition {
	const t = bootstrapv1.CertificatesAvailableV1Beta1Condition
	switch c := certificatesAvailable(s); {
	case c == nil:
		return nil
	case s.certsErr == nil:
		return new(v1beta1conditions.True(t))
	case s.cluster.Spec.ControlPlaneRef.IsDefined():
		return new(v1beta1conditions.False(t, clusterv1.ConditionSeverityError, bootstrapv1.CertificatesCorruptedV1Beta1Reason, c.Message))
	default:
		return new(v1beta1conditions.False(t, clusterv1.ConditionSeverityWarning, bootstrapv1.CertificatesGenerationFailedV1Beta1Reason, c.Message))
	}
}
