// SPDX-License-Identifier: Apache-2.0

// Package hookrules judges what extensions answer: whether patches apply and
// stay where they belong, whether an upgrade plan leads to where it should. It
// works on objects as decoded JSON, whose types nobody here knows.
package hookrules
