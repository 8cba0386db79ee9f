// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"net/netip"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// IPAMWebhooks are the webhooks of ipam.cluster.x-k8s.io. c reads the claim that an
// address is for.
func IPAMWebhooks(c client.Reader) []webhook.Webhook {
	return []webhook.Webhook{
		webhook.Validate(ipamTarget("IPAddress", "ipaddresses"), func(ctx context.Context, r webhook.Review[ipamv1.IPAddress]) (webhook.Result, error) {
			var claim *ipamv1.IPAddressClaim
			if r.Old == nil {
				claim = &ipamv1.IPAddressClaim{}
				err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Object.Spec.ClaimRef.Name}, claim)
				if apierrors.IsNotFound(err) {
					claim = nil
				} else if err != nil {
					return webhook.Result{}, err
				}
			}
			return webhook.Result{Errors: ValidateIPAddress(r.Object, r.Old, claim)}, nil
		}),
		webhook.Check(ipamTarget("IPAddressClaim", "ipaddressclaims", admissionregistrationv1.Update), ValidateIPAddressClaim),
	}
}

func ipamTarget(kind, resource string, operations ...admissionregistrationv1.OperationType) webhook.Target {
	return webhook.Target{
		Kind: ipamv1.GroupVersion().WithKind(kind), Resource: resource, Operations: operations,
		When: map[string]string{"spec-changed": webhook.SpecChanged},
	}
}

// ValidateIPAddress returns the errors in an IPAddress. claim is its claim, nil if
// not found.
func ValidateIPAddress(a, old *ipamv1.IPAddress, claim *ipamv1.IPAddressClaim) field.ErrorList {
	spec := field.NewPath("spec")
	if old != nil {
		return unchanged(spec, a.Spec, old.Spec)
	}
	var errs field.ErrorList
	address, err := netip.ParseAddr(a.Spec.Address)
	if err != nil {
		errs = append(errs, field.Invalid(spec.Child("address"), a.Spec.Address, "must be an IPv4 or IPv6 address"))
	} else if p := a.Spec.Prefix; p != nil && (*p < 0 || int(*p) > address.BitLen()) {
		errs = append(errs, field.Invalid(spec.Child("prefix"), *p, fmt.Sprintf("must be between 0 and %d", address.BitLen())))
	}
	if a.Spec.Gateway != "" {
		if _, err := netip.ParseAddr(a.Spec.Gateway); err != nil {
			errs = append(errs, field.Invalid(spec.Child("gateway"), a.Spec.Gateway, "must be an IPv4 or IPv6 address"))
		}
	}
	if claim != nil && claim.Spec.PoolRef != a.Spec.PoolRef {
		errs = append(errs, field.Invalid(spec.Child("poolRef"), a.Spec.PoolRef.Name, fmt.Sprintf("must be the pool of IPAddressClaim %s, %s %s", claim.Name, claim.Spec.PoolRef.Kind, claim.Spec.PoolRef.Name)))
	}
	return errs
}

// ValidateIPAddressClaim returns the errors in an IPAddressClaim.
func ValidateIPAddressClaim(c, old *ipamv1.IPAddressClaim) field.ErrorList {
	if old == nil {
		return nil
	}
	return unchanged(field.NewPath("spec"), c.Spec, old.Spec)
}

func unchanged(at *field.Path, spec, old any) field.ErrorList {
	if equality.Semantic.DeepEqual(spec, old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, "cannot change; delete the object and create another one")}
}
