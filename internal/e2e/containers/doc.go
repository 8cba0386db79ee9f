// SPDX-License-Identifier: Apache-2.0

// Package containers holds tests of clusters of container machines: real nodes on
// this host. They need root and a node image, so "make test-containers" alone runs them. It has
// no code of its own.
package containers
