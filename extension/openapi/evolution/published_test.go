// SPDX-License-Identifier: Apache-2.0

package evolution

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/openapi"
)

// Record is the part of a document that is stored when a version is published:
// its hooks and the types that they reach, without descriptions.
func Record(doc *spec3.OpenAPI, gv schema.GroupVersion) (*spec3.OpenAPI, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("record the hooks of %s: %w", gv, err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("record the hooks of %s: %w", gv, err)
	}
	paths, _ := tree["paths"].(map[string]any)
	for path := range paths {
		if !strings.HasPrefix(path, "/"+gv.Group+"/"+gv.Version+"/") {
			delete(paths, path)
		}
	}
	components, _ := tree["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	reached := map[string]bool{}
	reach(paths, schemas, reached)
	for name := range schemas {
		if !reached[name] {
			delete(schemas, name)
		}
	}
	silence(tree)
	if data, err = json.Marshal(tree); err != nil {
		return nil, fmt.Errorf("record the hooks of %s: %w", gv, err)
	}
	out := &spec3.OpenAPI{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("record the hooks of %s: %w", gv, err)
	}
	return out, nil
}

// reach marks the schemas that a part of a document refers to.
func reach(part any, schemas map[string]any, reached map[string]bool) {
	switch part := part.(type) {
	case map[string]any:
		if ref, ok := part["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			if !reached[name] {
				reached[name] = true
				reach(schemas[name], schemas, reached)
			}
		}
		for _, v := range part {
			reach(v, schemas, reached)
		}
	case []any:
		for _, v := range part {
			reach(v, schemas, reached)
		}
	}
}

// silence removes texts for people, and extensions that only Kubernetes reads. A
// field of a message may have such a name too; its schema is not a string.
func silence(part any) {
	switch part := part.(type) {
	case map[string]any:
		for key, v := range part {
			_, text := v.(string)
			if text && (key == "description" || key == "summary") || strings.HasPrefix(key, "x-kubernetes-") {
				delete(part, key)
				continue
			}
			silence(v)
		}
	case []any:
		for _, v := range part {
			silence(v)
		}
	}
}

const (
	publishedDir = "testdata/published"
	historyFile  = "testdata/history.json"
)

// TestPublishedHooksKeepTheirPromises checks the present hooks against rule 1. With
// UPDATE_GOLDEN=1 additions are recorded; a breaking change never is.
func TestPublishedHooksKeepTheirPromises(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document(catalog.Default(), openapi.Version)
	if err != nil {
		t.Fatal(err)
	}
	h := readHistory(t)
	expired := func(b Break) bool { return b.Field == "" && h.MayGo(b.Hook, time.Now()) == nil }
	for gv := range groupVersions(t) {
		t.Run(strings.ReplaceAll(gv.String(), "/", "_"), func(t *testing.T) {
			t.Parallel()
			now, err := Record(doc, gv)
			if err != nil {
				t.Fatal(err)
			}
			if err := keep(filepath.Join(publishedDir, gv.Group+"_"+gv.Version+".json"), now, os.Getenv("UPDATE_GOLDEN") != "", expired); err != nil {
				t.Error(err)
			}
		})
	}
}

// groupVersions are those of the catalog and those recorded.
func groupVersions(t *testing.T) map[schema.GroupVersion]bool {
	t.Helper()
	all := map[schema.GroupVersion]bool{}
	for _, d := range catalog.Default().Hooks() {
		all[d.GroupVersion()] = true
	}
	files, err := filepath.Glob(publishedDir + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		group, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "_")
		all[schema.GroupVersion{Group: group, Version: version}] = true
	}
	return all
}

// keep compares a record with the one in a file, and on request writes it if it breaks
// nothing except what has expired.
func keep(file string, now *spec3.OpenAPI, update bool, expired func(Break) bool) error {
	text, err := json.MarshalIndent(now, "", " ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	recorded, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		was := &spec3.OpenAPI{}
		if err := json.Unmarshal(recorded, was); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		var breaks []error
		for _, b := range Breaks(was, now) {
			if !expired(b) {
				breaks = append(breaks, errors.New(b.String()))
			}
		}
		if len(breaks) > 0 {
			return errors.Join(breaks...)
		}
	}
	if bytes.Equal(recorded, text) {
		return nil
	}
	if !update {
		return fmt.Errorf("%s lacks what was added to its hooks: record it with UPDATE_GOLDEN=1 go test ./extension/openapi/evolution", file)
	}
	return os.WriteFile(file, text, 0o644)
}

func TestABreakingChangeIsNeverRecorded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "g.example_v1.json")
	never := func(Break) bool { return false }
	if err := keep(file, document(t), false, never); err == nil || !strings.Contains(err.Error(), "UPDATE_GOLDEN=1") {
		t.Errorf("what is not recorded passes: %v", err)
	}
	if err := keep(file, document(t), true, never); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	removed := document(t, `"message": {"type": "string"},`, "")
	for _, update := range []bool{false, true} {
		if err := keep(file, removed, update, never); err == nil || !strings.Contains(err.Error(), "field response.message of hook g.example/v1/Nap was removed: rule 1") {
			t.Errorf("update %t: %v", update, err)
		}
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the record changed: %v", err)
	}
	added := document(t, `"width": {`, `"height": {"type": "integer"}, "width": {`)
	if err := keep(file, added, false, never); err == nil {
		t.Error("an addition that is not recorded passes")
	}
	if err := keep(file, added, true, never); err != nil {
		t.Errorf("an addition is refused: %v", err)
	}
	if err := keep(file, added, false, never); err != nil {
		t.Errorf("a recorded addition does not pass: %v", err)
	}
	gone := document(t, "/g.example/v1/nap/{name}", "/g.example/v1/sleep/{name}")
	if err := keep(file, gone, true, never); err == nil {
		t.Error("a hook goes that must stay")
	}
	if err := keep(file, gone, true, func(b Break) bool { return b.Hook == "g.example/v1/Nap" && b.Field == "" }); err != nil {
		t.Errorf("a hook that may go does not: %v", err)
	}
}

// TestARealFieldCannotGo breaks the real document in one place, as a careless
// change of a type in api/core would.
func TestARealFieldCannotGo(t *testing.T) {
	t.Parallel()
	doc, broken := &spec3.OpenAPI{}, &spec3.OpenAPI{}
	if err := json.Unmarshal(openapi.JSON(), doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(openapi.JSON(), broken); err != nil {
		t.Fatal(err)
	}
	delete(broken.Components.Schemas["core.v1beta2.ClusterSpec"].Properties, "paused")
	breaks := Breaks(doc, broken)
	if len(breaks) != 10 { // the hooks that send a Cluster
		t.Fatalf("%d breaks: %v", len(breaks), breaks)
	}
	want := Break{Hook: "hooks.runtime.cluster.x-k8s.io/v1alpha1/AfterClusterUpgrade", Field: "request.cluster.spec.paused", What: "was removed", Rule: 1}
	if breaks[0] != want {
		t.Errorf("got %+v, want %+v", breaks[0], want)
	}
}

// TestHooksAreSupportedAsLongAsRule4Demands compares the catalog with the
// history. With UPDATE_GOLDEN=1 hooks that are new are added to it.
func TestHooksAreSupportedAsLongAsRule4Demands(t *testing.T) {
	t.Parallel()
	h := readHistory(t)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		for _, d := range catalog.Default().Hooks() {
			if _, ok := h.Hooks[d.String()]; !ok {
				h.Hooks[d.String()] = Lifetime{Published: time.Now().UTC().Format(time.DateOnly)}
			}
		}
		data, err := json.MarshalIndent(h, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(historyFile, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Check(catalog.Default(), time.Now()); err != nil {
		t.Error(err)
	}
}

func readHistory(t *testing.T) History {
	t.Helper()
	data, err := os.ReadFile(historyFile)
	if err != nil {
		t.Fatal(err)
	}
	h := History{}
	if err := json.Unmarshal(data, &h); err != nil {
		t.Fatal(err)
	}
	return h
}
