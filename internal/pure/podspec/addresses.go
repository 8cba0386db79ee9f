// SPDX-License-Identifier: Apache-2.0

package podspec

// Addresses in a plane, which only its Pods and its API server use.
const (
	PodRange     = "10.244.0.0/16"
	ServiceRange = "10.96.0.0/16"
	APIService   = "10.96.0.1"  // of the Service "kubernetes"
	DNSService   = "10.96.0.10" // which no Service has
)
