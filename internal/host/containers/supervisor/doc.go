// SPDX-License-Identifier: Apache-2.0

// Package supervisor is the process that supervises one container. It is this
// program, started again under another name: the package's init checks the name,
// takes over and never returns. It must run before the packages that make the rest
// of the program large are initialized, so this package imports only the standard
// library and golang.org/x/sys: packages are initialized in the order of their
// paths after their imports.
//
//	launcher ---run, once---> supervisor ---first, each boot---> first process
//	    ^                        |  ^                               |
//	    +---control.sock---------+  +---console (a terminal)--------+
//
// The supervisor reads what to run from its standard input, starts the first
// process and reports on a pipe whether that worked. From then on it needs no other
// process. It stores the end of the console output, restarts the first process
// after a reboot, and writes its state to a file. A client that connects to its
// socket receives the same states and may request a stop. The kernel kills the
// first process when the supervisor exits, so none is left without a supervisor.
package supervisor
