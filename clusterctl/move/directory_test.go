// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// files are the names of the files of a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

var saved = []string{
	"ClusterClass_fleet_quick.yaml", "Cluster_fleet_c.yaml", "HostTemplate_fleet_hosts.yaml", "Machine_fleet_m.yaml",
	"Secret_fleet_c-ca.yaml", "Secret_fleet_c-kubeconfig.yaml", "Secret_fleet_cloud.yaml",
}

// TestSaveEndsThePauseAfterAFailure: each request is refused once, or the process exits
// before it. After the next run, the directory has all objects, and nothing is paused.
func TestSaveEndsThePauseAfterAFailure(t *testing.T) {
	t.Parallel()
	begin, before, _ := beginning(t)
	calm := begin.fork()
	save := func(s *sides, dir string) error {
		s.calls, s.dead = nil, false
		return Save(t.Context(), s.options(), dir)
	}
	if err := save(calm, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	calm.has("saved", before)
	for at, call := range calm.calls {
		if !isWrite(call) && at%4 > 0 { // files are synced, which takes time
			continue
		}
		for how, text := range map[failure]string{refused: "refused", died: "exited before it"} {
			what, s, dir := fmt.Sprintf("request %d, %s, %s", at+1, call, text), begin.fork(), t.TempDir()
			s.fails = once(at+1, how)
			err := save(s, dir)
			if err == nil && how == died {
				t.Errorf("%s: no error", what)
			}
			if s.fails = nil; err != nil {
				if err := save(s, dir); err != nil {
					t.Errorf("%s, saved again: %v", what, err)
				}
			}
			s.has(what, before)
			if got := files(t, dir); !slices.Equal(got, saved) {
				t.Errorf("%s: files %q", what, got)
			}
		}
	}
}

// TestSaveWritesWhatIsCreatedMeanwhile.
func TestSaveWritesWhatIsCreatedMeanwhile(t *testing.T) {
	t.Parallel()
	s, before, _ := beginning(t)
	const more = `{apiVersion: v1, kind: Secret, metadata: {namespace: fleet, name: more, uid: more, labels: {clusterctl.cluster.x-k8s.io/move: ""}}}`
	s.when("create ConfigMap fleet/capstan-move at source", func() {
		s.source.add(more)
		before.source["Secret fleet/more"] = s.source.contents()["Secret fleet/more"]
	})
	dir := t.TempDir()
	if err := Save(t.Context(), s.options(), dir); err != nil {
		t.Fatal(err)
	}
	s.has("saved", before)
	if got := files(t, dir); !slices.Contains(got, "Secret_fleet_more.yaml") || len(got) != len(saved)+1 {
		t.Errorf("files %q", got)
	}
}

// TestSaveDryRunWritesNothing: neither to the directory nor to the management cluster,
// also if an earlier run has not ended.
func TestSaveDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	begin, _, _ := beginning(t)
	interrupted := begin.fork()
	dir := filepath.Join(t.TempDir(), "saved")
	interrupted.exits("list ConfigMapList at source", func() error {
		interrupted.fails = func(n int, call string) failure {
			if n > 20 && strings.HasPrefix(call, "list") {
				return died
			}
			return none
		}
		return Save(t.Context(), interrupted.options(), dir)
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if interrupted.source.objects["ConfigMap fleet/"+JournalName] == nil {
		t.Fatal("it has no journal")
	}
	for name, s := range map[string]*sides{"first": begin, "after an interrupted one": interrupted} {
		o, planned := s.options(), 0
		o.DryRun, o.Planned = true, func(p *plan.Plan) { planned = len(p.Items) }
		s.calls = nil
		if err := Save(t.Context(), o, dir); err != nil || planned != len(saved) {
			t.Errorf("%s: error %v, %d objects planned", name, err, planned)
		}
		if n := slices.IndexFunc(s.calls, isWrite); n >= 0 {
			t.Errorf("%s: %s", name, s.calls[n])
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory exists", name)
		}
	}
}

// TestSaveRefusesObjectsOfOneFile: kinds of two groups can have the same name.
func TestSaveRefusesObjectsOfOneFile(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{}
	for _, group := range []string{"a.io", "b.io"} {
		kind := plan.Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Host"}}
		p.Items = append(p.Items, plan.Item{Kind: kind, Namespace: "fleet", Name: "h"})
	}
	if err := checkDirectory(t.TempDir(), p); err == nil || !strings.Contains(err.Error(), "Host_fleet_h.yaml") {
		t.Errorf("error %v", err)
	}
}

// TestRestoreEndsAfterAFailure: each request is refused once. The next run restores all
// objects, or deletes those that were restored.
func TestRestoreEndsAfterAFailure(t *testing.T) {
	t.Parallel()
	begin, _, after := beginning(t)
	dir := t.TempDir()
	if err := Save(t.Context(), begin.options(), dir); err != nil {
		t.Fatal(err)
	}
	begin = newSides(t, "", "")
	begin.deleted = everything
	restore := func(s *sides, rollback bool) error {
		s.calls, s.dead = nil, false
		o := s.options()
		o.Source, o.Rollback = nil, rollback
		return Restore(t.Context(), o, dir)
	}
	calm := begin.fork()
	if err := restore(calm, false); err != nil {
		t.Fatal(err)
	}
	want := calm.target.contents()
	for name := range after.target {
		if want[name] != after.target[name] {
			t.Errorf("restored %s as %s", name, want[name])
		}
	}
	for at, call := range calm.calls {
		what, s := fmt.Sprintf("request %d, %s, refused", at+1, call), begin.fork()
		s.fails = once(at+1, refused)
		if err := restore(s, false); err == nil {
			s.has(what, result{map[string]string{}, want})
			continue
		}
		on, back := s.fork(), s.fork()
		if err := restore(on, false); err != nil {
			t.Errorf("%s, restored again: %v", what, err)
		}
		on.has(what, result{map[string]string{}, want})
		switch err := restore(back, true); {
		case err == nil, strings.Contains(err.Error(), "there is nothing to roll back"):
			back.has(what, result{map[string]string{}, map[string]string{}})
		case !strings.Contains(err.Error(), "has every object already"):
			t.Errorf("%s, rolled back: %v", what, err)
		}
	}
}
