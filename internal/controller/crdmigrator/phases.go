// SPDX-License-Identifier: Apache-2.0

package crdmigrator

import (
	"fmt"
	"slices"
	"strings"
)

// Phase is a part of a migration, by upstream's names.
type Phase string

// The phases.
const (
	StorageVersionMigration Phase = "StorageVersionMigration" // objects are stored at the storage version
	CleanupManagedFields    Phase = "CleanupManagedFields"    // managedFields refer to served versions only
)

// Phases are some of the phases. It is the value of a flag.
type Phases []Phase

// Set implements pflag.Value: it adds phases, with commas between.
func (p *Phases) Set(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		phase := Phase(strings.TrimSpace(name))
		if phase != StorageVersionMigration && phase != CleanupManagedFields {
			return fmt.Errorf("phase %q is not known: give some of %s, %s", name, StorageVersionMigration, CleanupManagedFields)
		}
		if !p.has(phase) {
			*p = append(*p, phase)
		}
	}
	return nil
}

// String implements pflag.Value: it is the phases as Set reads them.
func (p *Phases) String() string {
	var names []string
	for _, phase := range *p {
		names = append(names, string(phase))
	}
	return strings.Join(names, ",")
}

// Type implements pflag.Value.
func (*Phases) Type() string { return "phases" }

func (p *Phases) has(phase Phase) bool { return slices.Contains(*p, phase) }

// Usage is the help text of the flag.
const Usage = "parts of the migration of CRDs to leave to another program: StorageVersionMigration, CleanupManagedFields"
