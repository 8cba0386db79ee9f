// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"

	ipamv1alpha1 "github.com/capstan-dev/capstan/api/ipam/v1alpha1"
	ipamv1beta1 "github.com/capstan-dev/capstan/api/ipam/v1beta1"
	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// IPAMKinds are the conversions of ipam.cluster.x-k8s.io, of v1beta1 and v1alpha1.
func IPAMKinds() []rules.Kind {
	hub := ipamv1.GroupVersion()
	return []rules.Kind{
		rules.Define(rules.Definition[ipamv1beta1.IPAddress, ipamv1.IPAddress]{
			Kind: "IPAddress", Old: ipamv1beta1.GroupVersion(), Hub: hub,
			Up: func(old *ipamv1beta1.IPAddress, hub, _ *ipamv1.IPAddress) error {
				addressUp(&old.Spec, &hub.Spec)
				return nil
			},
			Down: func(hub *ipamv1.IPAddress, old *ipamv1beta1.IPAddress, _ rules.Lookup) error {
				addressDown(&hub.Spec, &old.Spec)
				return nil
			},
		}),
		rules.Define(rules.Definition[ipamv1alpha1.IPAddress, ipamv1.IPAddress]{
			Kind: "IPAddress", Old: ipamv1alpha1.GroupVersion(), Hub: hub,
			Up: func(old *ipamv1alpha1.IPAddress, hub, _ *ipamv1.IPAddress) error {
				addressUp(&old.Spec, &hub.Spec)
				return nil
			},
			Down: func(hub *ipamv1.IPAddress, old *ipamv1alpha1.IPAddress, _ rules.Lookup) error {
				addressDown(&hub.Spec, &old.Spec)
				return nil
			},
		}),
		rules.Define(rules.Definition[ipamv1beta1.IPAddressClaim, ipamv1.IPAddressClaim]{
			Kind: "IPAddressClaim", Old: ipamv1beta1.GroupVersion(), Hub: hub, Up: claimUp, Down: claimDown,
		}),
		rules.Define(rules.Definition[ipamv1alpha1.IPAddressClaim, ipamv1.IPAddressClaim]{
			Kind: "IPAddressClaim", Old: ipamv1alpha1.GroupVersion(), Hub: hub, Up: oldestClaimUp, Down: oldestClaimDown,
			Keep: func(c *ipamv1.IPAddressClaim) any { return rules.Data(c.TypeMeta, c.Spec, c.Status) },
		}),
	}
}

func addressUp(old *ipamv1beta1.IPAddressSpec, hub *ipamv1.IPAddressSpec) {
	*hub = ipamv1.IPAddressSpec{
		ClaimRef: ipamv1.IPAddressClaimReference{Name: old.ClaimRef.Name},
		PoolRef:  poolUp(old.PoolRef),
		Address:  old.Address,
		Prefix:   new(int32(old.Prefix)),
		Gateway:  old.Gateway,
	}
}

func addressDown(hub *ipamv1.IPAddressSpec, old *ipamv1beta1.IPAddressSpec) {
	*old = ipamv1beta1.IPAddressSpec{
		ClaimRef: corev1.LocalObjectReference{Name: hub.ClaimRef.Name},
		PoolRef:  poolDown(hub.PoolRef),
		Address:  hub.Address,
		Prefix:   int(rules.Value(hub.Prefix)),
		Gateway:  hub.Gateway,
	}
}

func poolUp(old corev1.TypedLocalObjectReference) ipamv1.IPPoolReference {
	return ipamv1.IPPoolReference{Name: old.Name, Kind: old.Kind, APIGroup: rules.Value(old.APIGroup)}
}

func poolDown(hub ipamv1.IPPoolReference) corev1.TypedLocalObjectReference {
	return corev1.TypedLocalObjectReference{Name: hub.Name, Kind: hub.Kind, APIGroup: rules.Pointer(hub.APIGroup)}
}
