// SPDX-License-Identifier: Apache-2.0

// Package holder is process 1 of a Pod and the processes that it starts. It is this
// program, started again under another name: the package's init checks the name,
// takes over and never returns. It must run before the packages that make the rest
// of the program large are initialized, so this package imports only the standard
// library and golang.org/x/sys: packages are initialized in the order of their
// paths after their imports.
//
//	Name           holds the namespaces, makes sockets, starts the others
//	ContainerName  makes the root of a container, drops all rights, becomes it
//	EnterName      enters the namespaces of a container, and forks a process that
//	               drops all rights and becomes a command there
//
// They exchange JSON messages with descriptors with the plane over one pair of
// sockets. When its other end is closed the holder exits, and the kernel ends the
// whole Pod.
package holder
