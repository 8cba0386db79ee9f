// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/internal/host/pods/holder"
)

// usage is memory at one moment, in bytes.
type usage struct {
	live     int64 // of the plane, without garbage
	resident int64 // of the plane
	holders  int64 // of the processes that hold namespaces
}

// cores are the average numbers of busy processors over a time.
type cores struct{ plane, holders float64 }

// settled is the memory in use in steady state. The first collection releases what only
// the second one frees: caches that retain objects for one cycle.
func (b *Bench) settled(ctx context.Context) (u usage, err error) {
	if err := planes.Pause(ctx, b.Settle); err != nil {
		return u, err
	}
	for range 2 {
		if err := b.collect(ctx); err != nil {
			return u, fmt.Errorf("collect what is not in use: %w", err)
		}
	}
	metrics, err := b.typed.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return u, fmt.Errorf("read metrics of the plane: %w", err)
	}
	if u.live, err = inUse(metrics); err != nil {
		return u, err
	}
	if u.resident, err = planes.Resident(b.PID); err != nil {
		return u, err
	}
	all, err := holders(b.PID)
	if err != nil {
		return u, err
	}
	for _, pid := range all {
		own, err := private(pid)
		if err != nil {
			return u, err
		}
		u.holders += own
	}
	return u, nil
}

// collect triggers a garbage collection of the plane, through a profile of the heap.
func (b *Bench) collect(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.Profiles+"/debug/pprof/heap?gc=1", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return err
}

// inUse reads from metrics what a process has on its heap and on stacks.
func inUse(metrics []byte) (sum int64, err error) {
	found := 0
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name != "go_memstats_heap_alloc_bytes" && name != "go_memstats_stack_inuse_bytes" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		sum, found = sum+int64(n), found+1
	}
	if found != 2 {
		return 0, errors.Join(errors.New("the plane does not report the size of its heap and its stacks"), lines.Err())
	}
	return sum, nil
}

// holders returns the processes that hold the namespaces of a plane's Pods.
func holders(plane int) (found []int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, dir := range all {
		line, err1 := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, err2 := os.ReadFile(filepath.Join(dir, "stat"))
		pid, err3 := strconv.Atoi(filepath.Base(dir))
		if errors.Join(err1, err2, err3) != nil {
			continue // it has exited
		}
		if name, _, _ := bytes.Cut(line, []byte{0}); string(name) == holder.Name && parent(string(stat)) == plane {
			found = append(found, pid)
		}
	}
	return found, nil
}

// parent reads the parent process from /proc/PID/stat; 0 if that cannot be read.
func parent(stat string) int {
	_, rest, _ := strings.Cut(stat, ") ")
	f := strings.Fields(rest)
	if len(f) < 2 {
		return 0
	}
	pid, err := strconv.Atoi(f[1])
	if err != nil {
		return 0
	}
	return pid
}

// private is the private memory of a process in bytes. It does not include the pages of
// its program: they are shared with the plane, and in memory already.
func private(pid int) (sum int64, err error) {
	file := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "Private_Clean" && name != "Private_Dirty" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		sum, found = sum+n<<10, found+1
	}
	if found != 2 {
		return 0, fmt.Errorf("read %s: what is private is not in it", file)
	}
	return sum, nil
}

// idle measures the use of processors over the window without requests.
func (b *Bench) idle(ctx context.Context) (cores, error) {
	if err := planes.Pause(ctx, b.Settle); err != nil {
		return cores{}, err
	}
	before, err := b.cpu()
	if err != nil {
		return cores{}, err
	}
	if err := planes.Pause(ctx, b.Window); err != nil {
		return cores{}, err
	}
	after, err := b.cpu()
	over := b.Window.Seconds()
	return cores{plane: (after.plane - before.plane) / over, holders: (after.holders - before.holders) / over}, err
}

// cpu is the processor time so far, in seconds.
func (b *Bench) cpu() (c cores, err error) {
	if c.plane, err = planes.CPU(b.PID); err != nil {
		return c, err
	}
	all, err := holders(b.PID)
	if err != nil {
		return c, err
	}
	for _, pid := range all {
		used, err := planes.CPU(pid)
		if err != nil {
			return c, err
		}
		c.holders += used
	}
	return c, nil
}
