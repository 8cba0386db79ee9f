// SPDX-License-Identifier: Apache-2.0

// Package loopback is the addresses of this computer at which simulated clusters
// are reached: which there are, and how one is kept from everybody else.
package loopback

// Port is the same for every cluster where each has its own address.
const Port = 6443
