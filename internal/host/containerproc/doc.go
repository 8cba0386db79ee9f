// SPDX-License-Identifier: Apache-2.0

// Package containerproc starts the processes of containers, in both profiles. Each is
// this program, started again under another name: the package's init checks the
// name, takes over and never returns.
//
//	StartName  creates the root of a container, gives up rights, becomes its program
//	EnterName  enters the namespaces of a container, and forks a process that gives
//	           up rights and becomes a command there
//
// They read a Plan from one pipe and write an Answer to another one, which the kernel
// closes when they execute the program. Rights are those of a profile: there is one
// function that gives them up. A command runs until its pipe of the plan is closed.
//
// The package must run before the packages that make the rest of the program large
// are initialized, so it imports only the standard library and golang.org/x/sys:
// packages are initialized in the order of their paths after their imports.
package containerproc
