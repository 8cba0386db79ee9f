// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Bounds of the fields of Cluster API that values of providers are copied to. They
// are those of the CRDs: the API server rejects a whole status for one value that
// exceeds them.
const (
	maxProviderID     = 512
	maxSecretName     = 253
	maxFailureDomain  = 256
	maxFailureDomains = 100
	maxAddress        = 256
	maxAddresses      = 256
	maxHost           = 512
	maxPort           = 65535
	maxVersion        = 256
)

// shown is how much of a value that does not fit an error shows.
const shown = 64

// within adds a check to the field: Get returns an error for a value that does not
// pass it.
func (f Field[T]) within(check func(at *field.Path, v T) *field.Error) Field[T] {
	f.check = check
	return f
}

// atMost limits the length of a text. An empty one is one that is not set.
func atMost(most int) func(*field.Path, string) *field.Error {
	return func(at *field.Path, v string) *field.Error {
		if n := utf8.RuneCountInString(v); n > most {
			return field.Invalid(at, sanitize.Line(v, shown), fmt.Sprintf("has %d characters, at most %d are allowed", n, most))
		}
		return nil
	}
}

// given is atMost for a text that must be set.
func given(at *field.Path, v string, most int) *field.Error {
	if v == "" {
		return field.Required(at, "")
	}
	return atMost(most)(at, v)
}

func counter(at *field.Path, n int32) *field.Error {
	if n < 0 {
		return field.Invalid(at, n, "must not be negative")
	}
	return nil
}

// endpoint accepts one without host or port: it is not complete yet.
func endpoint(at *field.Path, e clusterv1.APIEndpoint) *field.Error {
	if e.Port < 0 || e.Port > maxPort {
		return field.Invalid(at.Child("port"), e.Port, fmt.Sprintf("must be from 1 to %d", maxPort))
	}
	return atMost(maxHost)(at.Child("host"), e.Host)
}

func addresses(at *field.Path, all clusterv1.MachineAddresses) *field.Error {
	if len(all) > maxAddresses {
		return field.TooMany(at, len(all), maxAddresses)
	}
	for i, a := range all {
		switch a.Type {
		case clusterv1.MachineHostName, clusterv1.MachineExternalIP, clusterv1.MachineInternalIP, clusterv1.MachineExternalDNS, clusterv1.MachineInternalDNS:
		default:
			return field.NotSupported(at.Index(i).Child("type"), sanitize.Line(string(a.Type), shown), []clusterv1.MachineAddressType{
				clusterv1.MachineHostName, clusterv1.MachineExternalIP, clusterv1.MachineInternalIP, clusterv1.MachineExternalDNS, clusterv1.MachineInternalDNS,
			})
		}
		if err := given(at.Index(i).Child("address"), a.Address, maxAddress); err != nil {
			return err
		}
	}
	return nil
}

// failureDomains are in the order of their names.
func failureDomains(at *field.Path, all []clusterv1.FailureDomain) *field.Error {
	if len(all) > maxFailureDomains {
		return field.TooMany(at, len(all), maxFailureDomains)
	}
	for i, d := range all {
		name := at.Key(sanitize.Line(d.Name, shown))
		if err := given(name.Child("name"), d.Name, maxFailureDomain); err != nil {
			return err
		}
		if i > 0 && all[i-1].Name == d.Name {
			return field.Duplicate(name.Child("name"), d.Name)
		}
	}
	return nil
}

func versions(at *field.Path, all []clusterv1.StatusVersion) *field.Error {
	for i, v := range all {
		if err := given(at.Index(i).Child("version"), v.Version, maxVersion); err != nil {
			return err
		}
		if err := counter(at.Index(i).Child("replicas"), v.Replicas); err != nil {
			return err
		}
	}
	return nil
}
