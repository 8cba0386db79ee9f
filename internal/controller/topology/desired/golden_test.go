// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"bytes"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
)

// TestEveryFieldOfAClass shows the objects of a class that sets every field.
func TestEveryFieldOfAClass(t *testing.T) {
	t.Parallel()
	checkGolden(t, "class.golden.yaml", load(t, "class.yaml").compute(t))
}

func checkGolden(t *testing.T, file string, d desired.Desired) {
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
	builder.Golden(t, file, out.Bytes())
}
