// SPDX-License-Identifier: Apache-2.0

// Package e2e holds tests of the whole: the capstan program with its real API
// server and controllers, and clusters of simulated machines. It contains only
// tests.
package e2e
