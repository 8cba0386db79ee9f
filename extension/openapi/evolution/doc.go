// SPDX-License-Identifier: Apache-2.0

// Package evolution holds hooks to the rules under which they may change.
//
// Rule 1: what a published version of a hook has is neither removed nor
// changed; that takes a new version. Breaks compares what was published with
// what there is.
//
// Rule 2: requests convert down and responses up. The catalog demands the
// conversions; its tests try them.
//
// Rule 3: a version is deprecated only when one at least as stable replaces
// it. The catalog refuses others.
//
// Rule 4: a deprecated version stays for a while, depending on its track.
// MayRemove and History say how long.
package evolution
