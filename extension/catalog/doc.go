// SPDX-License-Identifier: Apache-2.0

// Package catalog describes the runtime hooks: the function that represents a group,
// version and hook, the types of its request and response, its path, and the conversion
// from one version to another.
//
// Callers work only with the newest version of a hook. A request is converted down, step
// by step, to the version that an extension supports, and its response is converted up
// again.
//
// A catalog never changes after its creation, so it is safe for concurrent use.
package catalog
