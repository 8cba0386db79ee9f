// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// report fills the status from the state. err is the error that ended the
// reconcile.
func report(s *state, err error) {
	set := func(c metav1.Condition) {
		c.ObservedGeneration = s.specGeneration
		conditions.Set(s.config, s.now, c)
	}
	set(pause.Condition(s.cluster, s.config))
	if c := certificatesAvailable(s); c != nil {
		set(*c)
	}
	set(dataSecretAvailable(s, err))
	set(ready(s))
	if err == nil {
		s.config.Status.ObservedGeneration = s.specGeneration
	}
}

// certificatesAvailable is nil while the certificates have not been read, unless
// the data was rendered, for which they existed.
func certificatesAvailable(s *state) *metav1.Condition {
	c := metav1.Condition{Type: bootstrapv1.KubeadmConfigCertificatesAvailableCondition}
	switch {
	case s.certsErr != nil:
		c.Status, c.Reason = metav1.ConditionUnknown, bootstrapv1.KubeadmConfigCertificatesAvailableInternalErrorReason
		c.Message = s.certsErr.Error()
	case s.certsSeen || s.made():
		c.Status, c.Reason = metav1.ConditionTrue, bootstrapv1.KubeadmConfigCertificatesAvailableReason
	default:
		return nil
	}
	return &c
}

// dataSecretAvailable is True permanently once the data was rendered: later
// failures affect the token, or the data for machines that a pool creates later,
// which the condition then reports.
func dataSecretAvailable(s *state, err error) metav1.Condition {
	c := metav1.Condition{
		Type: bootstrapv1.KubeadmConfigDataSecretAvailableCondition, Status: metav1.ConditionFalse,
		Reason: bootstrapv1.KubeadmConfigDataSecretNotAvailableReason, Message: s.waiting,
	}
	switch {
	case s.made():
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, bootstrapv1.KubeadmConfigDataSecretAvailableReason, ""
		if s.machine.Pool && err != nil {
			c.Message = "The data could not be made again: " + cmp.Or(s.refused, err.Error())
		}
	case s.refused != "":
		c.Message = s.refused
	case err != nil:
		c.Message = err.Error()
	}
	return c
}

func ready(s *state) metav1.Condition {
	return conditions.Summary(s.config, bootstrapv1.KubeadmConfigReadyCondition, conditions.SummaryOptions{
		Types: []string{bootstrapv1.KubeadmConfigDataSecretAvailableCondition, bootstrapv1.KubeadmConfigCertificatesAvailableCondition},
		// The certificates are not read while the controller waits for another
		// object.
		Optional: []string{bootstrapv1.KubeadmConfigCertificatesAvailableCondition},
		Reasons: conditions.Reasons{
			Issue: bootstrapv1.KubeadmConfigNotReadyReason, Unknown: bootstrapv1.KubeadmConfigReadyUnknownReason, Info: bootstrapv1.KubeadmConfigReadyReason,
		},
	})
}
