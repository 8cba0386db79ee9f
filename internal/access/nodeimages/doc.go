// SPDX-License-Identifier: Apache-2.0

// Package nodeimages makes and keeps the images that machines on this host start
// from: a Debian with systemd, containerd, kubeadm and one version of Kubernetes,
// whose container images lie in containerd's store already.
//
// An image is a folder of a Store. Machines use its layers read-only, as the lower
// layers of an overlay, and get a /var of their own that shares all large files with
// the image's by hard links. So the image serves any number of machines and takes
// its space once.
//
// An image is made in steps (package steps), each of which is kept under a digest of
// what it was made from: a build that was interrupted goes on where it stopped, and
// a second version of Kubernetes makes what differs alone.
package nodeimages
