// SPDX-License-Identifier: Apache-2.0

// Package conversion_test holds what is true of the conversions of all groups.
package conversion_test
