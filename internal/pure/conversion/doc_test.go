// SPDX-License-Identifier: Apache-2.0

// Package conversion_test tests the common properties of the conversions of all groups.
package conversion_test
