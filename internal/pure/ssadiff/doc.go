// SPDX-License-Identifier: Apache-2.0

// Package ssadiff predicts, without a request to the API server, whether a server-side
// apply of a partial object would change anything.
//
// Its input is the schema in the CRD (Type) and the live object from the server's JSON.
// An Intent is a partial object in the form that will be sent; Against compares it with
// the live object as the server would, and returns why an apply is needed, if it is. No
// apply is needed when the manager's entry in managedFields contains exactly the fields
// of the intent, and merging the intent into the object changes nothing, including the
// order of lists.
//
// Package differ compares its results with the server's own code.
package ssadiff
