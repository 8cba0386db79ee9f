// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestClusterScripts runs every script of testdata/cluster with the real program,
// side by side on one management plane. Each has a separate home and namespace,
// $NS.
func TestClusterScripts(t *testing.T) {
	program := testenv.Binary(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/cluster",
		Setup: func(env *testscript.Env) error {
			plane := testenv.Start(t)
			env.Setenv("KUBECONFIG", plane.Kubeconfig)
			env.Setenv("NS", plane.Namespace)
			env.Values["plane"] = plane
			return builder.Home(env, program, "clusterctl")
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": builder.Exits,
			"until": builder.Until,
			"apply": func(ts *testscript.TestScript, negated bool, args []string) {
				if negated || len(args) != 1 {
					ts.Fatalf("usage: apply FILE")
				}
				ts.Check(apply(t.Context(), ts.Value("plane").(*testenv.Env), ts.ReadFile(args[0])))
			},
		},
	})
}

// apply creates the objects of a document in the script's namespace.
func apply(ctx context.Context, plane *testenv.Env, doc string) error {
	objects, err := template.Objects([]byte(doc))
	if err != nil {
		return err
	}
	for _, obj := range objects {
		obj.SetNamespace(plane.Namespace)
		if err := plane.Client.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}
