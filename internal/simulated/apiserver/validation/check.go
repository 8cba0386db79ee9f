// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// when returns the errors if a condition holds.
func when(condition bool, errs ...*field.Error) field.ErrorList {
	if condition {
		return errs
	}
	return nil
}

// oneOf checks a value of a fixed set.
func oneOf[T ~string](at *field.Path, value T, set ...T) field.ErrorList {
	return when(!slices.Contains(set, value), field.NotSupported(at, value, set))
}

// optionally checks a value unless it is nil.
func optionally[T any](value *T, check func(T) field.ErrorList) field.ErrorList {
	if value == nil {
		return nil
	}
	return check(*value)
}

// each checks the elements of a list.
func each[T any](at *field.Path, list []T, check func(*field.Path, *T) field.ErrorList) (errs field.ErrorList) {
	for i := range list {
		errs = append(errs, check(at.Index(i), &list[i])...)
	}
	return errs
}

// unique checks that no two elements of a list have the same key, which a field of each
// may be. It ignores empty keys.
func unique[T any, K comparable](at *field.Path, list []T, key func(*T) K, child ...string) (errs field.ErrorList) {
	var none K
	seen := map[K]bool{}
	for i := range list {
		k, at := key(&list[i]), at.Index(i)
		if len(child) > 0 {
			at = at.Child(child[0], child[1:]...)
		}
		errs = append(errs, when(seen[k], field.Duplicate(at, k))...)
		seen[k] = k != none
	}
	return errs
}

// formed checks the form of a text.
func formed[T ~string](at *field.Path, value T, form func(string) []string) (errs field.ErrorList) {
	for _, text := range form(string(value)) {
		errs = append(errs, field.Invalid(at, value, text))
	}
	return errs
}

// named checks the name of another object or part, which is required.
func named(at *field.Path, value string, form func(string) []string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return formed(at, value, form)
}

// objectName is the form of most names of objects.
func objectName(name string) []string { return apivalidation.NameIsDNSSubdomain(name, false) }

// anything is the form of a text that is only required.
func anything(string) []string { return nil }

// between checks a number.
func between[T int32 | int64](at *field.Path, value, low, high T) field.ErrorList {
	return when(value < low || value > high, field.Invalid(at, value, fmt.Sprintf("must be between %d and %d, inclusive", low, high)))
}

// port checks a number of a port, or the name of one.
func port(at *field.Path, value intstr.IntOrString) (errs field.ErrorList) {
	texts := utilvalidation.IsValidPortNum(value.IntValue())
	if value.Type == intstr.String {
		texts = utilvalidation.IsValidPortName(value.StrVal)
	}
	for _, text := range texts {
		errs = append(errs, field.Invalid(at, value.String(), text))
	}
	return errs
}

func protocol(at *field.Path, value corev1.Protocol) field.ErrorList {
	return oneOf(at, value, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
}

// addressRange checks a range of addresses in the notation of CIDR.
func addressRange(at *field.Path, value string) field.ErrorList {
	p, err := netip.ParsePrefix(value)
	return append(when(err != nil, field.Invalid(at, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")),
		when(err == nil && p != p.Masked(), field.Invalid(at, value, "must not have bits set beyond the prefix length"))...)
}

// address checks an IP address.
func address(at *field.Path, value string) field.ErrorList {
	a, err := netip.ParseAddr(value)
	return when(err != nil || a.Zone() != "", field.Invalid(at, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
}
