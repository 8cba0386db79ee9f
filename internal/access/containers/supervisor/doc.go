// SPDX-License-Identifier: Apache-2.0

// Package supervisor is the process that looks after one container. It is this
// program, started again under another name: the package's init sees the name,
// takes over and never returns. It must run before the packages that make the
// rest of the program large, so this one reaches the standard library and
// golang.org/x/sys alone: packages are initialised in the order of their paths
// once what they import is.
//
//	launcher ---run, once---> supervisor ---first, each boot---> first process
//	    ^                        |  ^                               |
//	    +---control.sock---------+  +---console (a terminal)--------+
//
// The supervisor reads what to run from its standard input, begins the first
// process and tells on a pipe whether that worked. From then on it needs nobody.
// It keeps the newest of what is written to the console, begins the first process
// again when it rebooted, and writes to a file how far it is. Whoever connects to
// its socket is told the same, and may ask it to stop. The first process is
// killed by the kernel when the supervisor ends, so none is left without.
package supervisor
