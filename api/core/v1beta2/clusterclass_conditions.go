// SPDX-License-Identifier: Apache-2.0

package v1beta2

const (
	// ClusterClassVariablesReadyCondition is True when the variables of all sources
	// are known and agree. Set by the ClusterClass controller.
	ClusterClassVariablesReadyCondition = "VariablesReady"

	// Reasons of ClusterClassVariablesReadyCondition.
	ClusterClassVariablesReadyReason                        = "VariablesReady"
	ClusterClassVariablesReadyVariableDiscoveryFailedReason = "VariableDiscoveryFailed"
)

const (
	// ClusterClassRefVersionsUpToDateCondition is True when all references use the
	// latest version of the contract. Set by the ClusterClass controller.
	ClusterClassRefVersionsUpToDateCondition = "RefVersionsUpToDate"

	// Reasons of ClusterClassRefVersionsUpToDateCondition.
	ClusterClassRefVersionsUpToDateReason              = "RefVersionsUpToDate"
	ClusterClassRefVersionsNotUpToDateReason           = "RefVersionsNotUpToDate"
	ClusterClassRefVersionsUpToDateInternalErrorReason = InternalErrorReason
)
