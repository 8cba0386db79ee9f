// SPDX-License-Identifier: Apache-2.0

// Package containers runs programs of this host in containers, each with its own
// root file system, process tree, network and limits. It uses only kernel features
// and needs no installed software; it needs root and Linux.
//
// The state of containers is stored in one folder, which one process at a time
// opens:
//
//	identity                     distinguishes this folder from others on the host
//	lock                         locked by the process that has it open
//	networks/<name>.json         the desired state of each network
//	containers/<name>/spec.json  the desired state of a container
//	containers/<name>/state.json its current state, written by its supervisor
//	containers/<name>/upper      its changes to its root
//	containers/<name>/console.*  the end of its console output
//
// A container outlives the process that started it. A supervisor, which is this
// program under another name (package supervisor), holds its console, restarts it
// when it reboots, and records how it ended; if the supervisor exits, the container
// ends as well. The next process that opens the folder finds both.
//
// Everything outside the folder carries its identity: names of cgroups, of links
// and of nftables tables. So two folders on one host do not interfere, and Sweep
// finds what belongs to no container. A file system is mounted only in the mount
// namespace of the container, so no mount is left behind.
//
// A container is no tenant boundary: its root is root on the host's kernel.
package containers
