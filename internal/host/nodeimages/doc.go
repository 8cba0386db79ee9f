// SPDX-License-Identifier: Apache-2.0

// Package nodeimages builds and stores the images that machines on this host start
// from: a Debian with systemd, containerd, kubeadm and one version of Kubernetes,
// whose container images are already in containerd's store.
//
// An image is one of package ociimages, in a privileged store. Machines use its root
// folder read-only, as the lower layer of an overlay, and get their own /var that
// shares all large files with the image's by hard links. So any number of machines can
// use the image, which takes its space once.
//
// An image is built in steps (package buildcache), whose results are stored under a
// digest of their inputs: an interrupted build continues where it stopped, and a
// build of a second version of Kubernetes only repeats the steps that differ.
package nodeimages
