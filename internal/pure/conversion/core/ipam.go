// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
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
				return addressUp(&old.Spec, &hub.Spec)
			},
			Down: func(hub *ipamv1.IPAddress, old *ipamv1beta1.IPAddress, _ rules.Lookup) error {
				return addressDown(&hub.Spec, &old.Spec)
			},
		}),
		rules.Define(rules.Definition[ipamv1alpha1.IPAddress, ipamv1.IPAddress]{
			Kind: "IPAddress", Old: ipamv1alpha1.GroupVersion(), Hub: hub,
			Up: func(old *ipamv1alpha1.IPAddress, hub, _ *ipamv1.IPAddress) error {
				return addressUp(&old.Spec, &hub.Spec)
			},
			Down: func(hub *ipamv1.IPAddress, old *ipamv1alpha1.IPAddress, _ rules.Lookup) error {
				return addressDown(&hub.Spec, &old.Spec)
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

func addressUp(old *ipamv1beta1.IPAddressSpec, hub *ipamv1.IPAddressSpec) error {
	*hub = ipamv1.IPAddressSpec{
		ClaimRef: ipamv1.IPAddressClaimReference{Name: old.ClaimRef.Name},
		PoolRef:  poolUp(old.PoolRef),
		Address:  old.Address,
		Prefix:   new(int32(old.Prefix)),
		Gateway:  old.Gateway,
	}
	return nil
}

func addressDown(hub *ipamv1.IPAddressSpec, old *ipamv1beta1.IPAddressSpec) error {
	*old = ipamv1beta1.IPAddressSpec{
		ClaimRef: corev1.LocalObjectReference{Name: hub.ClaimRef.Name},
		PoolRef:  poolDown(hub.PoolRef),
		Address:  hub.Address,
		Prefix:   int(rules.Value(hub.Prefix)),
		Gateway:  hub.Gateway,
	}
	return nil
}

func poolUp(old corev1.TypedLocalObjectReference) ipamv1.IPPoolReference {
	return ipamv1.IPPoolReference{Name: old.Name, Kind: old.Kind, APIGroup: rules.Value(old.APIGroup)}
}

func poolDown(hub ipamv1.IPPoolReference) corev1.TypedLocalObjectReference {
	return corev1.TypedLocalObjectReference{Name: hub.Name, Kind: hub.Kind, APIGroup: rules.Pointer(hub.APIGroup)}
}

// labelSetAnnotation with the value "false" on a claim of v1alpha1 says that the
// label with its Cluster was not there before the conversion.
const labelSetAnnotation = "conversion.cluster.x-k8s.io/cluster-name-label-set"

func claimUp(old *ipamv1beta1.IPAddressClaim, hub, _ *ipamv1.IPAddressClaim) error {
	hub.Spec = ipamv1.IPAddressClaimSpec{ClusterName: old.Spec.ClusterName, PoolRef: poolUp(old.Spec.PoolRef)}
	statusUp(old.Status.AddressRef, old.Status.Conditions, &hub.Status)
	hub.Status.Conditions = rules.Value(old.Status.V1Beta2).Conditions
	return nil
}

func claimDown(hub *ipamv1.IPAddressClaim, old *ipamv1beta1.IPAddressClaim, _ rules.Lookup) error {
	old.Spec = ipamv1beta1.IPAddressClaimSpec{ClusterName: hub.Spec.ClusterName, PoolRef: poolDown(hub.Spec.PoolRef)}
	old.Status.AddressRef, old.Status.Conditions = statusDown(&hub.Status)
	old.Status.V1Beta2 = rules.Pointer(ipamv1beta1.IPAddressClaimV1Beta2Status{Conditions: hub.Status.Conditions})
	return nil
}

func statusUp(address corev1.LocalObjectReference, conditions clusterv1.Conditions, hub *ipamv1.IPAddressClaimStatus) {
	hub.AddressRef.Name = address.Name
	hub.Deprecated = rules.Pointer(ipamv1.IPAddressClaimDeprecatedStatus{V1Beta1: rules.Pointer(ipamv1.IPAddressClaimV1Beta1DeprecatedStatus{Conditions: conditions})})
}

func statusDown(hub *ipamv1.IPAddressClaimStatus) (corev1.LocalObjectReference, clusterv1.Conditions) {
	return corev1.LocalObjectReference{Name: hub.AddressRef.Name}, rules.Value(rules.Value(hub.Deprecated).V1Beta1).Conditions
}

// oldestClaimUp finds the Cluster in a label, which v1alpha1 has instead of a field.
func oldestClaimUp(old *ipamv1alpha1.IPAddressClaim, hub, kept *ipamv1.IPAddressClaim) error {
	hub.Spec.PoolRef = poolUp(old.Spec.PoolRef)
	statusUp(old.Status.AddressRef, old.Status.Conditions, &hub.Status)
	hub.Status.Conditions = rules.Value(kept).Status.Conditions
	if hub.Labels == nil {
		return nil
	}
	hub.Spec.ClusterName = hub.Labels[clusterv1.ClusterNameLabel]
	if hub.Annotations[labelSetAnnotation] == "false" {
		delete(hub.Labels, clusterv1.ClusterNameLabel)
	}
	delete(hub.Annotations, labelSetAnnotation)
	return nil
}

func oldestClaimDown(hub *ipamv1.IPAddressClaim, old *ipamv1alpha1.IPAddressClaim, _ rules.Lookup) error {
	old.Spec.PoolRef = poolDown(hub.Spec.PoolRef)
	old.Status.AddressRef, old.Status.Conditions = statusDown(&hub.Status)
	if hub.Spec.ClusterName == "" {
		return nil
	}
	if _, set := old.Labels[clusterv1.ClusterNameLabel]; !set {
		metav1.SetMetaDataAnnotation(&old.ObjectMeta, labelSetAnnotation, "false")
	}
	metav1.SetMetaDataLabel(&old.ObjectMeta, clusterv1.ClusterNameLabel, hub.Spec.ClusterName)
	return nil
}
