// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// BenchmarkVersion compares the start of the program in CAPSTAN_PROGRAM with that of
// the one in CAPSTAN_REFERENCE, such as upstream's clusterctl: how many times its CPU
// time and its peak of resident memory "version" takes. They run alternately, so that
// the load of the computer is the same for both. Resident memory includes the pages of
// the program's file that were read, which all processes share.
func BenchmarkVersion(b *testing.B) {
	program, reference := os.Getenv("CAPSTAN_PROGRAM"), os.Getenv("CAPSTAN_REFERENCE")
	if program == "" || reference == "" {
		b.Skip("needs the paths of two programs in CAPSTAN_PROGRAM and CAPSTAN_REFERENCE: see make bench-version")
	}
	measure := func(path string, cpu, memory *float64) {
		cmd := exec.CommandContext(b.Context(), path, "version")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%s version: %v: %s", path, err, out)
		}
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			b.Fatal("this system reports no usage of processes")
		}
		*cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
		*memory += float64(usage.Maxrss)
	}
	var cpu, memory, referenceCPU, referenceMemory float64
	for b.Loop() {
		measure(program, &cpu, &memory)
		measure(reference, &referenceCPU, &referenceMemory)
	}
	b.ReportMetric(cpu/referenceCPU, "x-cpu")
	b.ReportMetric(memory/referenceMemory, "x-resident")
}
