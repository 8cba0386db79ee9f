// SPDX-License-Identifier: Apache-2.0

// Package hookrules judges what extensions answer: whether patches apply and
// stay where they belong. It works on objects as decoded JSON, whose types nobody
// here knows. Plans of upgrades are judged by package plan.
package hookrules
