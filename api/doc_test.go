// SPDX-License-Identifier: Apache-2.0

// Package api_test holds the wire types of all groups against what is known
// of the wire: constants, hook types and golden objects.
package api_test
