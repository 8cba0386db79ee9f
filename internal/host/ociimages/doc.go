// SPDX-License-Identifier: Apache-2.0

// Package ociimages fetches and stores the images of Pods and machines: from registries,
// archives and folders, for one platform each.
//
//	images.json   the existing images: names, configuration, layers
//	layers/       unpacked layers, by the digests of their content
//	roots/        the root folders of images, of hard links to layers
//	parts/        partially fetched layers: a pull continues where it stopped
//	users/        the machines that need an image, by its digest
//
// Several processes may use one store. Content with a digest is verified, all sizes
// have limits, and nothing is moved to its place before it is complete. An image
// whose root is in use is never removed: Pods hold file locks, which the kernel
// releases when a process exits; machines, which outlive processes, have files.
package ociimages
