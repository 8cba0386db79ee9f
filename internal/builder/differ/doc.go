// SPDX-License-Identifier: Apache-2.0

// Package differ compares the predictions of package intent for an apply with what
// an API server does. It creates objects of many kinds: an intent that changes at
// random is applied again and again, while other managers apply, patch, update and
// remove managedFields. Each apply is compared with the prediction before it.
//
// The server is a real one, or Local: the server's own code for managed fields,
// pruning and defaults in this process, for a thousand times as many steps.
package differ
