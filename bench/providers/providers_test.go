// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/host/pods/holder"
)

func TestMemoryInUseIsThatOfHeapAndStacks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		metrics string
		want    int64
	}{
		"both":      {"# HELP a b\ngo_memstats_heap_alloc_bytes 1.5e+03\ngo_memstats_heap_idle_bytes 7\ngo_memstats_stack_inuse_bytes 20\n", 1520},
		"one alone": {"go_memstats_heap_alloc_bytes 1.5e+03\n", 0},
		"damaged":   {"go_memstats_heap_alloc_bytes much\ngo_memstats_stack_inuse_bytes 20\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := inUse([]byte(tc.metrics)); got != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("%d, %v, want %d", got, err, tc.want)
			}
		})
	}
}

// TestHoldersAreKnownByNameAndParent starts one that is called so, and one that is
// not.
func TestHoldersAreKnownByNameAndParent(t *testing.T) {
	t.Parallel()
	called := func(name string) int {
		cmd := exec.CommandContext(t.Context(), "sleep", "1000")
		cmd.Args[0] = name
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		return cmd.Process.Pid
	}
	want := called(holder.Name)
	called("sleep")
	if got, err := holders(os.Getpid()); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("holders %v, %v, want %d", got, err, want)
	}
	if got, err := holders(want); err != nil || len(got) != 0 {
		t.Errorf("holders of another process %v, %v, want none", got, err)
	}
	if own, err := private(os.Getpid()); err != nil || own < 1<<20 {
		t.Errorf("%d bytes of this process, %v", own, err)
	}
}

func TestCostDistinguishesFirstProvider(t *testing.T) {
	t.Parallel()
	const m = 1 << 20
	c := Cost{Providers: 3, AvailableSeconds: []float64{1, 3, 2}, ServiceMilliseconds: 1.5, DirectMilliseconds: 1, AloneMilliseconds: 2, CrowdedMilliseconds: 5}
	c.memory(usage{live: 100 * m, resident: 300 * m}, usage{live: 104 * m, holders: 3 * m}, usage{live: 106 * m, resident: 310 * m, holders: 9 * m})
	if c.FirstMiB != 7 || c.EachMiB != 4 || c.HolderMiB != 3 || c.ResidentMiB != 10 {
		t.Errorf("%+v, want 7, 4, 3 and 10 MiB", c)
	}
	if c.Slowest() != 3 || c.ServiceAdds() != 0.5 || c.CrowdRatio() != 2.5 {
		t.Errorf("%v s, %v ms and %v times, want 3, 0.5 and 2.5", c.Slowest(), c.ServiceAdds(), c.CrowdRatio())
	}
	var told strings.Builder
	c.Table(func(what, _ string, _ ...any) { told.WriteString(what + "\n") })
	if told.String() != "providers\nmemory beyond their own\nall in steady state\nwebhook\n99th percentile of requests\n" {
		t.Errorf("told %q", told.String())
	}
}

func TestThePercentileIsOfTheSlowest(t *testing.T) {
	t.Parallel()
	var all []float64
	for n := range 200 {
		all = append(all, float64(199-n))
	}
	if got := percentile99(all); got != 198 {
		t.Errorf("got %v, want 198: only the slowest is slower", got)
	}
	if n := below(map[int][]int{1: {2, 3}, 3: {4}, 5: {6}}, 1); n != 3 {
		t.Errorf("%d processes, want 3", n)
	}
}
