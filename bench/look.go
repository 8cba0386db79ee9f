// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/bench/planes"
)

// lookTimes is how often each command runs: it reports the median, which one
// disturbed run does not change.
const lookTimes = 9

// Look is the cost of a read-only command, run as users run it: as a separate
// process, from its start to its end.
type Look struct {
	Command string  `json:"command"`
	Seconds float64 `json:"seconds"`
	// CPUSeconds are those of the command, PlaneCPUSeconds what the plane uses
	// meanwhile.
	CPUSeconds      float64 `json:"cpuSeconds"`
	PlaneCPUSeconds float64 `json:"planeCPUSeconds"`
	// Requests are those for resources, Bytes what the command prints.
	Requests float64 `json:"requests"`
	Bytes    int     `json:"bytes"`
}

// looks are the commands, on the first cluster.
func looks(kubeconfig string) [][]string {
	plane := []string{"--kubeconfig", kubeconfig, "-n", namespace}
	return [][]string{
		{"version"},
		slices.Concat([]string{"describe", "cluster", clusterName(0)}, plane),
		slices.Concat([]string{"describe", "cluster", clusterName(0), "--grouping=false", "--echo", "--show-conditions", "all"}, plane),
		slices.Concat([]string{"why", "cluster/" + clusterName(0)}, plane),
		slices.Concat([]string{"get", "machines"}, plane),
		slices.Concat([]string{"get", "machines", "-o", "wide"}, plane),
	}
}

// look measures the commands that show a cluster and its machines.
func (b *bench) look(ctx context.Context, r *Result) error {
	if !b.scenario.Look {
		return nil
	}
	for _, args := range looks(filepath.Join(b.dir, "kubeconfig")) {
		l, err := b.lookBy(ctx, args)
		if err != nil {
			return err
		}
		r.Looks = append(r.Looks, l)
	}
	return nil
}

func (b *bench) lookBy(ctx context.Context, args []string) (Look, error) {
	l := Look{Command: args[0]}
	for n, arg := range args[1:] {
		if arg != "--kubeconfig" && args[n] != "--kubeconfig" { // the same for all
			l.Command += " " + arg
		}
	}
	before, err := b.snap(ctx)
	if err != nil {
		return l, err
	}
	var took, used []float64
	for range lookTimes {
		cmd, begin := exec.CommandContext(ctx, b.binary, args...), time.Now()
		cmd.Env = append(cmd.Environ(), "XDG_DATA_HOME="+b.dir)
		out, err := cmd.Output()
		if err != nil {
			return l, fmt.Errorf("%s: %w: %s", l.Command, err, out)
		}
		took = append(took, time.Since(begin).Seconds())
		used = append(used, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
		l.Bytes = len(out)
	}
	after, err := b.snap(ctx)
	if err != nil {
		return l, err
	}
	slices.Sort(took)
	slices.Sort(used)
	l.Seconds, l.CPUSeconds = round(took[lookTimes/2]), round(used[lookTimes/2])
	l.PlaneCPUSeconds = round((after.cpu - before.cpu) / lookTimes)
	l.Requests = round(after.requests.Since(before.requests).Sum(planes.Counted) / lookTimes)
	return l, nil
}

// shows reports whether a command shows a cluster or machines, and not itself.
func (l Look) shows() bool { return !strings.HasPrefix(l.Command, "version") }
