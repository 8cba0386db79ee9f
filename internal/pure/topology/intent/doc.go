// SPDX-License-Identifier: Apache-2.0

// Package intent decides, without asking the API server, whether a server-side
// apply of a partial object would change anything.
//
// What it knows of the server is the schema in the CRD (Type) and the live
// object as the server's JSON had it. An Intent is a partial object in the form
// that is to be sent; Against compares it with the live object as the server
// would, and says why an apply is needed, if it is. No apply is needed when our
// entry in managedFields names just the fields of the intent, and merging the
// intent into the object changes nothing, the order of lists included.
//
// What it says is held against the server's own code by package differ.
package intent
