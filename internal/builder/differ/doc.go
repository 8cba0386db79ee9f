// SPDX-License-Identifier: Apache-2.0

// Package differ holds what package intent says of an apply against what an API
// server does. It lets objects of many kinds live: an intent that changes at
// random is applied again and again, while other managers apply, patch, update
// and take managedFields away. Each apply is compared with the verdict before.
//
// The server is a real one, or Local: the server's own code for managed fields,
// pruning and defaults in this process, for a thousand times as many steps.
package differ
