// SPDX-License-Identifier: Apache-2.0

// Package containers runs programs of this host in containers: each with a root
// file system, a process tree, a network and limits of its own. It is made of
// what the kernel has and of nothing that must be installed; it needs root, and
// Linux.
//
// What is kept of containers lies in one folder, which one process at a time
// opens:
//
//	identity                     tells this folder from all others of the host
//	lock                         locked by who has it open
//	networks/<name>.json         what each network is wanted to be
//	containers/<name>/spec.json  what a container is wanted to be
//	containers/<name>/state.json how far it is, written by its supervisor
//	containers/<name>/upper      what it has changed of its root
//	containers/<name>/console.*  the newest of what it wrote to its console
//
// A container outlives the process that started it. A supervisor, which is this
// program under another name (package supervisor), holds its console, starts it
// again when it reboots, and notes how it ended; the container dies with it.
// Whoever opens the folder next finds both.
//
// All that lies outside the folder carries its identity: names of cgroups, links
// and tables of nftables. So two folders of one host do not touch each other's,
// and Sweep tells what belongs to no container from what does. A file system is
// mounted in the container's own mount namespace only, so none is left behind.
//
// A container is no tenant boundary: its root is root on the host's kernel.
package containers
