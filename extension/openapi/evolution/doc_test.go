// SPDX-License-Identifier: Apache-2.0

// Package evolution checks changes of hooks against the rules for them.
//
// Rule 1: the content of a published version of a hook is neither removed nor
// changed; that requires a new version. Breaks compares the published versions
// with the present ones.
//
// Rule 2: requests convert down and responses up. The catalog requires the
// conversions; its tests run them.
//
// Rule 3: a version is deprecated only when one at least as stable replaces
// it. The catalog refuses others.
//
// Rule 4: a deprecated version stays for a while, depending on its track.
// MayRemove and History define how long.
package evolution
