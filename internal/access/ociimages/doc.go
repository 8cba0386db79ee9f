// SPDX-License-Identifier: Apache-2.0

// Package ociimages gets and keeps the images of containers: from registries, from
// archives and from folders, for one platform each.
//
//	images.json   what there is: names, configuration, layers
//	layers/       unpacked layers, by the digests of what they hold
//	roots/        the root folders of images, of hard links to layers
//	parts/        layers on their way here: a pull goes on where it stopped
//
// Several processes may use one store. What is looked at by its digest is compared
// with it, all sizes have limits, and nothing has its place before it is whole. An
// image whose root is in use is never removed: the kernel knows who uses it, also
// when a user dies.
package ociimages
