// SPDX-License-Identifier: Apache-2.0

// Package network makes what connects containers: bridges of the host with
// translation of addresses, and a pair of links for each container. It asks the
// kernel by netlink and runs no program.
//
// What it makes is found again by its name, which begins with the identity of
// the folder that it is made for:
//
//	c<identity><hash>          a container's link on the host
//	b<identity><hash>          a network's bridge
//	capstan-<identity>-<name>  a network's table of nftables
package network
