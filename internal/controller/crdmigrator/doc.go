// SPDX-License-Identifier: Apache-2.0

// Package crdmigrator lets old versions of an API go. While a version is served,
// objects may be stored at it, and managedFields may speak of it; a
// CustomResourceDefinition may drop it only when neither is so any more, or
// nobody could read or apply such objects again. Once for each generation of a
// definition the controller has every object stored anew at the storage version,
// unless that is the only one at which any was, and takes the entries of
// managedFields away whose version is not served.
//
// It looks at a page of objects at a time, by their metadata and past the cache,
// and goes on to the next in another reconcile. Objects that cannot be written
// keep the definition waiting, and no other object. A process that ends in
// between begins again: to write an object once more changes nothing.
//
// Watches: CustomResourceDefinition metadata.
// Writes: CustomResourceDefinition annotation crd-migration.cluster.x-k8s.io/observed-generation
// and status.storedVersions; of objects of the kind nothing but managedFields.
package crdmigrator
