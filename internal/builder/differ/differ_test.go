// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestApplyIsPredicted runs a few hundred steps, always the same; make differ
// runs others.
func TestApplyIsPredicted(t *testing.T) {
	t.Parallel()
	crds, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, 400)
	if o.Server, err = NewLocal(crds); err != nil {
		t.Fatal(err)
	}
	run(t, o)
}

// busy is a server where others write just before a writer does: they remove
// managedFields before an apply, and annotate before these are recorded again.
type busy struct {
	Server
	requests int
}

func (b *busy) Do(ctx context.Context, r Request) (map[string]any, int, error) {
	if b.requests++; b.requests%2 == 0 && strings.HasSuffix(r.Query, "fieldManager="+Manager) {
		change := map[string]any{"managedFields": []any{map[string]any{}}}
		if !strings.Contains(r.Query, "force") {
			change = map[string]any{"annotations": map[string]any{"told": strconv.Itoa(b.requests)}}
		}
		// There may be no such object yet.
		_, _, _ = b.Server.Do(ctx, Request{Method: http.MethodPatch, Path: r.Path, Type: "application/merge-patch+json", Body: map[string]any{"metadata": change}})
	}
	return b.Server.Do(ctx, r)
}

func TestWhoWritesInBetweenOnlyInterrupts(t *testing.T) {
	t.Parallel()
	crds, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	local, err := NewLocal(crds)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, 20)
	o.Server = &busy{Server: local}
	run(t, o)
}

// options are those of a short run, or those in the environment.
func options(t *testing.T, steps int) Options {
	t.Helper()
	o := Options{Namespace: "default", Seed: 1, Steps: steps, Owner: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "11111111-1111-1111-1111-111111111111"}}
	if n, err := strconv.Atoi(os.Getenv("DIFFER_STEPS")); err == nil {
		o.Steps = n
	}
	if n, err := strconv.ParseUint(os.Getenv("DIFFER_SEED"), 10, 64); err == nil {
		o.Seed = n
	}
	return o
}

func run(t *testing.T, o Options) {
	t.Helper()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("seed %d: %v", o.Seed, err)
	}
	t.Logf("seed %d, %d steps\n%s", o.Seed, report.Steps, report)
	for _, fault := range report.Faults() {
		t.Errorf("seed %d: %s", o.Seed, fault)
	}
}
