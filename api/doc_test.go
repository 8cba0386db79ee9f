// SPDX-License-Identifier: Apache-2.0

// Package api_test compares the wire types of all groups with the known wire
// format: constants, hook types and golden objects.
package api_test
