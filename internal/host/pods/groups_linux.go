// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
)

// groupOf returns a group of a Pod. Its limits are for its containers together, but
// not for its holder, which counts toward the plane.
//
//	<group>/<name>/holder
//	<group>/<name>/containers/<container>

func (s *Sandbox) groupOf(parts ...string) string {
	return path.Join(append([]string{s.host.group, "pod-" + s.spec.Name}, parts...)...)
}

func (s *Sandbox) containersGroup() string { return s.groupOf("containers") }

func containerGroup(s *Sandbox, name string) string {
	return s.groupOf("containers", "container-"+name)
}

// makeGroups creates the groups of the Pod and moves its holder into its own.
func (s *Sandbox) makeGroups(pid int) error {
	if s.host.rootless {
		if autogrouped() {
			s.autogroup = sessionNice
		}
		return nil
	}
	g := s.host.groups
	for _, group := range []string{s.groupOf("holder"), s.containersGroup()} {
		if err := g.Make("", group); err != nil {
			return err
		}
	}
	weighed, err := g.Weigh(s.host.group, groupWeight)
	if err != nil {
		return err
	}
	if !weighed && autogrouped() {
		s.autogroup = sessionNice
	}
	if err := g.Limit(s.host.group, cgroups.Limits{PIDs: s.host.budget}); err != nil {
		return err
	}
	if err := g.Limit(s.containersGroup(), cgroups.Limits{Memory: s.spec.Memory, MilliCPU: s.spec.MilliCPU, PIDs: s.spec.PIDs}); err != nil {
		return err
	}
	return g.Enter(s.groupOf("holder"), pid)
}

// killed returns how many processes of a group were killed for lack of memory.
func killed(g cgroups.Host, group string) (int, error) {
	for _, t := range g.Hierarchies {
		file := "memory.oom_control"
		switch {
		case g.Unified:
			file = "memory.events"
		case !slices.Contains(t.Controllers, "memory"):
			continue
		}
		text, err := os.ReadFile(path.Join(t.Dir, group, file))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read what was ended for want of memory: %w", err)
		}
		return oomKills(string(text)), nil
	}
	return 0, nil
}

// oomKills parses the count from either file of the kernel.
func oomKills(text string) int {
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			if count, err := strconv.Atoi(n); err == nil {
				return count
			}
		}
	}
	return 0
}
