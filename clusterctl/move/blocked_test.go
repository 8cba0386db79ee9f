// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
)

// TestRunWaitsForAProviderThatBlocksIt, for a time, and copies what it wrote meanwhile.
func TestRunWaitsForAProviderThatBlocksIt(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]int{"until it is done": 3, "for two minutes": 1 << 20} {
		s, before, after := beginning(t)
		const machine, journal = "Machine fleet/m", "ConfigMap fleet/" + JournalName
		s.source.change(machine, func(obj *unstructured.Unstructured) {
			obj.SetAnnotations(map[string]string{clusterctlv1.BlockMoveAnnotation: ""})
		})
		blocked := s.source.contents()[machine]
		seen := 0
		s.fails = func(_ int, call string) failure {
			if call != "list MachineList at source" || s.target.objects[journal] == nil {
				return none
			}
			if seen++; seen == reads {
				s.source.change(machine, func(obj *unstructured.Unstructured) {
					obj.SetAnnotations(nil)
					obj.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "c", "done": ""})
				})
				after.target[machine] = s.source.contents()[machine]
			}
			return none
		}
		begin := s.clock.Now()
		err := s.run(false)
		waited := s.clock.Since(begin)
		if name == "until it is done" {
			if err != nil || waited > blockLasts/2 {
				t.Errorf("%s: after %s: %v", name, waited, err)
			}
			s.has(name, after)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), machine+" still has the annotation "+clusterctlv1.BlockMoveAnnotation) || waited < blockLasts || waited > blockLasts+longestWait {
			t.Errorf("%s: after %s: %v", name, waited, err)
		}
		if err := s.run(true); err != nil {
			t.Errorf("%s, rolled back: %v", name, err)
		}
		before.source[machine] = blocked
		s.has(name+", rolled back", before)
	}
}

// TestRunGivesUpWhatChangesWhileItIsDeleted: another client writes it between all
// requests. The move ends when that client stops.
func TestRunGivesUpWhatChangesWhileItIsDeleted(t *testing.T) {
	t.Parallel()
	s, before, after := beginning(t)
	s.after = func(call string) {
		if call == "patch Machine fleet/m at source" {
			s.source.change("Machine fleet/m", func(*unstructured.Unstructured) {})
		}
	}
	s.fails = func(_ int, call string) failure {
		if call == "get Machine fleet/m at source" {
			s.source.change("Machine fleet/m", func(obj *unstructured.Unstructured) { obj.SetAnnotations(nil) })
		}
		return none
	}
	if err := s.run(false); err == nil || !strings.Contains(err.Error(), "Machine fleet/m keeps changing while it must be deleted") {
		t.Fatalf("error %v", err)
	}
	s.fork().endsEitherWay("the client has stopped", before, after)
}

// TestRunRefusesToDeleteWhatDiffers: an object changes at the source after it was compared,
// or its copy does. Nothing is lost, and the object is not deleted.
func TestRunRefusesToDeleteWhatDiffers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*sides){
		"the original has more": func(s *sides) {
			s.source.change("Secret fleet/cloud", func(obj *unstructured.Unstructured) { obj.SetAnnotations(map[string]string{"more": ""}) })
		},
		"the original has less": func(s *sides) {
			s.source.change("Secret fleet/cloud", func(obj *unstructured.Unstructured) {
				unstructured.RemoveNestedField(obj.Object, "data", "key")
			})
		},
		"the copy has another value": func(s *sides) {
			s.target.change("Secret fleet/cloud", func(obj *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(obj.Object, "eg==", "data", "key")
			})
		},
		"the copy was deleted": func(s *sides) { s.target.drop("Secret fleet/cloud") },
	} {
		s, _, _ := beginning(t)
		s.exits("delete Cluster fleet/c at source", func() error { return s.run(false) })
		change(s)
		err := s.run(false)
		if err == nil || !strings.Contains(err.Error(), "Secret fleet/cloud") || !strings.Contains(err.Error(), "--rollback") {
			t.Errorf("%s: error %v", name, err)
		}
		if s.source.objects["Secret fleet/cloud"] == nil || s.source.objects["Cluster fleet/c"] == nil {
			t.Errorf("%s: it was deleted", name)
		}
	}
}

// TestRestoreRefusesADirectoryThatIsIncomplete, and does not show what a file contains.
func TestRestoreRefusesADirectoryThatIsIncomplete(t *testing.T) {
	t.Parallel()
	const secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"fleet","uid":"1"},"data":{"key":"c2VjcmV0"}}`
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no file":            {nil, "has no objects"},
		"other files":        {map[string]string{"readme.txt": "x"}, "has no objects"},
		"no YAML":            {map[string]string{"a.yaml": "a: [c2VjcmV0"}, "holds no object"},
		"half of a file":     {map[string]string{"a.json": secret[:len(secret)-20]}, "holds no object"},
		"an empty file":      {map[string]string{"a.yaml": ""}, "holds no object"},
		"no name":            {map[string]string{"a.yaml": "{apiVersion: v1, kind: Secret, metadata: {uid: x}}"}, "has no metadata.name or no metadata.uid"},
		"no UID":             {map[string]string{"a.yaml": "{apiVersion: v1, kind: Secret, metadata: {name: x}}"}, "has no metadata.name or no metadata.uid"},
		"the same twice":     {map[string]string{"a.yaml": secret, "b.yaml": secret}, "hold objects with the same UID"},
		"a kind not present": {map[string]string{"a.yaml": "{apiVersion: x.io/v1, kind: Zone, metadata: {name: z, uid: z}}"}, "install the provider whose kind that is"},
	} {
		dir := t.TempDir()
		for file, text := range tc.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := newSides(t, "", "")
		s.calls = nil
		err := Restore(t.Context(), s.options(), dir)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: error %v", name, err)
		}
		for _, call := range s.calls {
			if isWrite(call) {
				t.Errorf("%s: %s", name, call)
			}
		}
	}
}
