// SPDX-License-Identifier: Apache-2.0

// Package pods runs the processes of Pods in sandboxes of this machine, as root
// or as a plain user. It knows processes, files and addresses: no Kubernetes
// type, no image store and no client.
//
//	plane ---requests, descriptors---> holder (process 1 of the Pod)
//	  |  <---sockets, pidfds, ends---    | starts
//	  +---plan, output, exec------------ containers, each with process ids and
//	                                     a root of its own
//
// A sandbox has user, mount, process, IPC, host name and network namespaces. Its
// network has nothing but lo: what leaves it is led to sockets that the holder
// made there and gave to the plane, which accepts and answers. Nothing of the
// host's network is changed. The holder ends with the plane, and all of its Pod
// with it.
package pods
