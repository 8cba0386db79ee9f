// SPDX-License-Identifier: Apache-2.0

// Package holder is process 1 of a Pod and what it starts. It is this program,
// started again under another name: the package's init sees the name, takes over
// and never returns. It must run before the packages that make the rest of the
// program large, so this one imports the standard library and golang.org/x/sys
// alone: packages are initialised in the order of their paths once what they
// import is.
//
//	Name           holds the namespaces, makes sockets, starts the others
//	ContainerName  makes the root of a container, drops all rights, becomes it
//	EnterName      enters the namespaces of a container, and forks a process that
//	               drops all rights and becomes a command there
//
// They talk to the plane by messages of JSON with descriptors over one pair of
// sockets. When its other end is closed the holder ends, and the kernel ends all
// of its Pod.
package holder
