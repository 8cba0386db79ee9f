// SPDX-License-Identifier: Apache-2.0

package v1beta2

import clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"

// IPAddressClaimReadyCondition is True once the claim has its address. The
// IPAM provider sets it.
const IPAddressClaimReadyCondition = clusterv1.ReadyCondition

// Reasons of Ready.
const (
	// IPAddressClaimReadyAllocationFailedReason means that no address could be
	// allocated.
	IPAddressClaimReadyAllocationFailedReason = "AllocationFailed"

	// IPAddressClaimReadyPoolNotReadyReason means that the pool is not ready.
	IPAddressClaimReadyPoolNotReadyReason = "PoolNotReady"

	// IPAddressClaimReadyPoolExhaustedReason means that the pool has no
	// address left.
	IPAddressClaimReadyPoolExhaustedReason = "PoolExhausted"
)

// Reasons of the v1beta1 form of Ready.
const (
	// AllocationFailedV1Beta1Reason means that no address could be allocated.
	AllocationFailedV1Beta1Reason = "AllocationFailed"

	// PoolNotReadyV1Beta1Reason means that the pool is not ready.
	PoolNotReadyV1Beta1Reason = "PoolNotReady"

	// PoolExhaustedV1Beta1Reason means that the pool has no address left.
	PoolExhaustedV1Beta1Reason = "PoolExhausted"
)
