// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 holds the wire types of infrastructure.capstan.dev/v1beta2,
// the local provider: clusters and machines on the host that Capstan runs on.
// +kubebuilder:object:generate=true
// +groupName=infrastructure.capstan.dev
package v1beta2
