// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

// CheckIssuer returns why an issuer cannot issue, without reading its Secret; nil if its
// spec is valid.
func CheckIssuer(spec *certmanagerv1.IssuerSpec) *Reason {
	var honoured, others []string
	for _, k := range []struct {
		name     string
		set, can bool
	}{
		{"selfSigned", spec.SelfSigned != nil, true}, {"ca", spec.CA != nil, true},
		{"acme", spec.ACME != nil, false}, {"vault", spec.Vault != nil, false}, {"venafi", spec.Venafi != nil, false},
	} {
		switch {
		case k.set && k.can:
			honoured = append(honoured, k.name)
		case k.set:
			others = append(others, k.name)
		}
	}
	switch {
	case len(others) > 0:
		return &Reason{certmanagerv1.NotSupportedReason, fmt.Sprintf("issuers of kind %s are not honoured without cert-manager: give selfSigned or ca, or install cert-manager", strings.Join(others, ", "))}
	case len(honoured) != 1:
		return &Reason{certmanagerv1.InvalidIssuerReason, fmt.Sprintf("spec has %d of selfSigned and ca: give one", len(honoured))}
	case spec.CA != nil && spec.CA.SecretName == "":
		return &Reason{certmanagerv1.InvalidIssuerReason, "spec.ca.secretName: there is none"}
	}
	return nil
}

// IssuerCondition returns the Ready condition of an issuer; problem is why it cannot
// issue.
func IssuerCondition(spec *certmanagerv1.IssuerSpec, problem *Reason) metav1.Condition {
	c := metav1.Condition{Type: certmanagerv1.ReadyCondition, Status: metav1.ConditionTrue}
	switch {
	case problem != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, problem.Reason, problem.Message
	case spec.CA != nil:
		c.Reason, c.Message = certmanagerv1.KeyPairReason, "Signing CA verified"
	default:
		c.Reason = certmanagerv1.SelfSignedReason
	}
	return c
}
