// SPDX-License-Identifier: Apache-2.0

// Package catalog knows the runtime hooks: which function stands for which
// group, version and hook, which types its request and response have, at which
// path it is called, and how one version is converted to another.
//
// Callers work with the newest version of a hook alone. A request goes down,
// step by step, to the version that an extension speaks, and its response
// comes up again.
//
// A catalog never changes once it is made, so all of it may be used by many
// goroutines at once.
package catalog
