// SPDX-License-Identifier: Apache-2.0

package v1beta2

import clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"

// ExtensionConfigDiscoveredCondition is True once the extension has reported the
// hooks that it answers. The ExtensionConfig controller sets it.
const ExtensionConfigDiscoveredCondition = "Discovered"

// Reasons of Discovered.
const (
	// ExtensionConfigDiscoveredReason means that the handlers are known.
	ExtensionConfigDiscoveredReason = "Discovered"

	// ExtensionConfigNotDiscoveredReason means that the extension could not be
	// asked or gave no usable answer.
	ExtensionConfigNotDiscoveredReason = "NotDiscovered"
)

// ExtensionConfigHookVersionsUpToDateCondition is True while none of the
// handlers answers a deprecated version of its hook. The ExtensionConfig
// controller sets it.
const ExtensionConfigHookVersionsUpToDateCondition = "HookVersionsUpToDate"

// Reasons of HookVersionsUpToDate.
const (
	// ExtensionConfigHookVersionsUpToDateReason means that no handler answers a
	// deprecated version.
	ExtensionConfigHookVersionsUpToDateReason = clusterv1.UpToDateReason

	// ExtensionConfigHookVersionsNotUpToDateReason means that some do; the
	// message names them and what replaces the versions.
	ExtensionConfigHookVersionsNotUpToDateReason = clusterv1.NotUpToDateReason

	// ExtensionConfigHookVersionsUpToDateUnknownReason means that the handlers
	// were never discovered.
	ExtensionConfigHookVersionsUpToDateUnknownReason = clusterv1.UpToDateUnknownReason
)

// RuntimeExtensionDiscoveredV1Beta1Condition is the v1beta1 form of
// Discovered.
const RuntimeExtensionDiscoveredV1Beta1Condition clusterv1.ConditionType = "Discovered"

// DiscoveryFailedV1Beta1Reason is the reason when the v1beta1 form of
// Discovered is False.
const DiscoveryFailedV1Beta1Reason = "DiscoveryFailed"
