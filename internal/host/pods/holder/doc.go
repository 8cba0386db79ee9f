// SPDX-License-Identifier: Apache-2.0

// Package holder is process 1 of a Pod: the shim of the profile pod. It is this
// program, started again under another name, like the processes of package
// containerproc, which it starts in the namespaces that it holds.
//
// It exchanges JSON messages with descriptors with the plane over one pair of
// sockets. When its other end is closed the holder exits, and the kernel ends the
// whole Pod.
package holder
