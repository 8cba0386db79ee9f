// SPDX-License-Identifier: Apache-2.0

package v1beta2

import clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"

// ExtensionConfigDiscoveredCondition is True once the extension told which
// hooks it answers. The ExtensionConfig controller sets it.
const ExtensionConfigDiscoveredCondition = "Discovered"

// Reasons of Discovered.
const (
	// ExtensionConfigDiscoveredReason says that the handlers are known.
	ExtensionConfigDiscoveredReason = "Discovered"

	// ExtensionConfigNotDiscoveredReason says that the extension could not be
	// asked or gave no usable answer.
	ExtensionConfigNotDiscoveredReason = "NotDiscovered"
)

// RuntimeExtensionDiscoveredV1Beta1Condition is the v1beta1 form of
// Discovered.
const RuntimeExtensionDiscoveredV1Beta1Condition clusterv1.ConditionType = "Discovered"

// DiscoveryFailedV1Beta1Reason is the reason when the v1beta1 form of
// Discovered is False.
const DiscoveryFailedV1Beta1Reason = "DiscoveryFailed"
