// SPDX-License-Identifier: Apache-2.0

// Package pods runs the processes of Pods in sandboxes of this machine, as root or
// as a plain user. It handles processes, files and addresses: no Kubernetes type,
// no image store and no client.
//
//	plane ---requests, descriptors---> holder (process 1 of the Pod)
//	  |  <---sockets, pidfds, ends---    | starts
//	  +---plan, output, exec------------ containers, each with process ids and
//	                                     a separate root
//
// A sandbox has user, mount, process, IPC, host name and network namespaces. Its
// network has only lo: outgoing packets are redirected to sockets that the holder
// created there and passed to the plane, which accepts and answers. Nothing of the
// host's network is changed. The holder exits with the plane, and the whole Pod
// exits with it.
package pods
