// SPDX-License-Identifier: Apache-2.0

// Package mutation helps authors of runtime extensions with the hooks about templates and
// objects: GeneratePatches, ValidateTopology, CanUpdateMachine and CanUpdateMachineSet.
//
// GeneratePatches calls a Visit with each template of a request. The Visit changes a
// copy, as unstructured content or, with As and For, as a Go type; the patch is computed
// from the states before and after. Fields that the Go type lacks are retained.
// ValidateTopology visits templates the same way and patches nothing. Patch, Edit and
// Take do for one object of an in-place hook what GeneratePatches does for many.
//
// Only spec may change. Of a patched template, Cluster API uses only spec (of that,
// spec.template), and silently drops everything else; in place, only spec is compared. So
// a change outside it, which could never have an effect, is an error that names the
// field.
//
// Patches are deterministic: the same objects and the same changes give the same bytes.
// They are JSON patches, which can express every change; MergePatches selects JSON merge
// patches. An object that did not change gets no patch.
package mutation
