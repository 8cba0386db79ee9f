// SPDX-License-Identifier: Apache-2.0

// Package crdmigrator prepares the removal of old versions of an API. While a
// version is served, objects may be stored at it, and managedFields may refer to
// it; a CustomResourceDefinition may drop the version only when neither is the case
// any longer, or such objects could not be read or applied again. Once for each
// generation of a definition the controller rewrites every object at the storage
// version, unless that is the only one at which any was stored, and removes the
// entries of managedFields whose version is not served.
//
// It handles one page of objects at a time, by their metadata and without the
// cache, and continues with the next page in another reconcile. Objects that cannot
// be written delay the definition, and no other object. After a crash the next
// process starts again: to write an object again changes nothing.
//
// Watches: CustomResourceDefinition metadata.
// Writes: CustomResourceDefinition annotation crd-migration.cluster.x-k8s.io/observed-generation
// and status.storedVersions; of objects of the kind only managedFields.
package crdmigrator
