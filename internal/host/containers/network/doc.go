// SPDX-License-Identifier: Apache-2.0

// Package network connects containers: with bridges of the host with network
// address translation, and a pair of links for each container. It uses netlink and
// runs no program.
//
// It finds the objects that it created by their names, which start with the
// identity of the folder:
//
//	c<identity><hash>          a container's link on the host
//	b<identity><hash>          a network's bridge
//	capstan-<identity>-<name>  a network's table of nftables
package network
