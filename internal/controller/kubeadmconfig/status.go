// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// report fills the status from what the reconcile saw. err is what ended it.
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

// certificatesAvailable is nil while nobody has looked, unless the data was
// made, for which they were there.
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

// dataSecretAvailable is True for ever once the data was made: what fails later
// concerns the token, or the data of machines that a pool gets later, of which it
// then tells.
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
		// Nobody looks at the certificates while something else is awaited.
		Optional: []string{bootstrapv1.KubeadmConfigCertificatesAvailableCondition},
		Reasons: conditions.Reasons{
			Issue: bootstrapv1.KubeadmConfigNotReadyReason, Unknown: bootstrapv1.KubeadmConfigReadyUnknownReason, Info: bootstrapv1.KubeadmConfigReadyReason,
		},
	})
}
