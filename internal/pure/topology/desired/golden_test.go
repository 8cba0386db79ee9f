// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/pure/topology/desired"
)

var update = flag.Bool("update", false, "write testdata anew")

// TestEveryFieldOfAClass shows the objects of a class that sets every field.
func TestEveryFieldOfAClass(t *testing.T) {
	t.Parallel()
	golden(t, "class.golden.yaml", load(t, "class.yaml").compute(t))
}

func golden(t *testing.T, file string, d desired.Desired) {
	t.Helper()
	var out bytes.Buffer
	for i, o := range d.Objects() {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	file = "testdata/" + file
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("go test -update writes it anew (-want +got):\n%s", diff)
	}
}
