// SPDX-License-Identifier: Apache-2.0

package machineset

import "testing"

// BenchmarkSynchronise synchronizes a thousand Machines that are up to date.
func BenchmarkSynchronise(b *testing.B) {
	s := &state{set: machineSet(1000)}
	for range 1000 {
		s.machines = append(s.machines, machine("m"))
	}
	r := &Reconciler{} // with nothing that could write
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.synchronise(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}
