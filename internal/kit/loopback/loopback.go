// SPDX-License-Identifier: Apache-2.0

// Package loopback is the addresses of this computer at which simulated clusters
// are reached: which ones exist, and how one is reserved.
package loopback

// Port is the same for every cluster where each has its own address.
const Port = 6443
