// SPDX-License-Identifier: Apache-2.0

package differ_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/capstan-dev/capstan/internal/builder/differ"
)

// TestAnApplyIsForetold runs a few hundred steps, always the same; make differ
// runs others.
func TestAnApplyIsForetold(t *testing.T) {
	t.Parallel()
	crds, err := differ.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, 400)
	if o.Server, err = differ.NewLocal(crds); err != nil {
		t.Fatal(err)
	}
	run(t, o)
}

// options are those of a short run, or of what the environment asks for.
func options(t *testing.T, steps int) differ.Options {
	t.Helper()
	o := differ.Options{Namespace: "default", Seed: 1, Steps: steps, Owner: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "11111111-1111-1111-1111-111111111111"}}
	if n, err := strconv.Atoi(os.Getenv("DIFFER_STEPS")); err == nil {
		o.Steps = n
	}
	if n, err := strconv.ParseUint(os.Getenv("DIFFER_SEED"), 10, 64); err == nil {
		o.Seed = n
	}
	return o
}

func run(t *testing.T, o differ.Options) {
	t.Helper()
	report, err := differ.Run(t.Context(), o)
	if err != nil {
		t.Fatalf("seed %d: %v", o.Seed, err)
	}
	t.Logf("seed %d, %d steps\n%s", o.Seed, report.Steps, report)
	for _, fault := range report.Faults() {
		t.Errorf("seed %d: %s", o.Seed, fault)
	}
}
