// SPDX-License-Identifier: Apache-2.0

// Package containers holds tests of clusters of container machines: real nodes on
// this host. They need root and a node image, so only "make test-containers" runs
// them. It contains only tests.
package containers
