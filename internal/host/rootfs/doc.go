// SPDX-License-Identifier: Apache-2.0

// Package rootfs creates the root of a container in the mount namespace of the
// calling process, and enters it. Machine and Pod, the two profiles, plan the steps;
// one function executes them.
//
// The content of a root is not trusted: it is an image, or what a container wrote
// before. No link in it leads a step out of the root, and what is mounted has its
// attributes before a process can see it.
//
// The shims import this package, so it imports only the standard library and
// golang.org/x/sys.
package rootfs
