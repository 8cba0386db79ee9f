// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestScripts runs every script of testdata/script with the real program and a
// plane that they share. What one installs has a separate name.
func TestScripts(t *testing.T) {
	program := testenv.Binary(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			plane := testenv.Start(t)
			env.Setenv("KUBECONFIG", plane.Kubeconfig)
			env.Setenv("NS", plane.Namespace)
			env.Values["plane"] = plane.Client
			return builder.Home(env, program)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": builder.Exits,
			// apply FILE creates the objects of a document.
			"apply": func(ts *testscript.TestScript, negated bool, args []string) {
				if negated || len(args) != 1 {
					ts.Fatalf("usage: apply FILE")
				}
				ts.Check(create(t.Context(), ts.Value("plane").(client.Client), ts.ReadFile(args[0])))
			},
			// get KIND.VERSION.GROUP [NAMESPACE/]NAME [FIELD] prints a field of an object; with
			// ! there is none.
			"get": func(ts *testscript.TestScript, negated bool, args []string) {
				obj := object(ts, args)
				c := ts.Value("plane").(client.Client)
				err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
				gone := apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
				if negated {
					if !gone {
						ts.Fatalf("%v is there: %v", args, err)
					}
					return
				}
				ts.Check(err)
				if len(args) > 2 {
					_, _ = fmt.Fprintln(ts.Stdout(), field(obj.Object, args[2]))
				}
			},
			// limited FILE writes a kubeconfig of the user "limited".
			"limited": func(ts *testscript.TestScript, _ bool, args []string) {
				if len(args) != 1 {
					ts.Fatalf("usage: limited FILE")
				}
				cfg, err := clientcmd.LoadFromFile(ts.Getenv("KUBECONFIG"))
				ts.Check(err)
				for _, user := range cfg.AuthInfos {
					user.Impersonate = "limited"
				}
				ts.Check(clientcmd.WriteToFile(*cfg, ts.MkAbs(args[0])))
			},
			// remove KIND.VERSION.GROUP [NAMESPACE/]NAME deletes an object.
			"remove": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Value("plane").(client.Client).Delete(t.Context(), object(ts, args)))
			},
		},
	})
}

func object(ts *testscript.TestScript, args []string) *unstructured.Unstructured {
	if len(args) < 2 {
		ts.Fatalf("want KIND.VERSION.GROUP [NAMESPACE/]NAME")
	}
	kind, _ := schema.ParseKindArg(args[0])
	if kind == nil {
		ts.Fatalf("%s is not KIND.VERSION.GROUP", args[0])
	}
	namespace, name, ok := strings.Cut(args[1], "/")
	if !ok {
		namespace, name = "", args[1]
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(*kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// field is the value at a path of names with / between them.
func field(v any, path string) string {
	for name := range strings.SplitSeq(path, "/") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	text, _ := json.Marshal(v)
	return string(text)
}

func create(ctx context.Context, c client.Client, doc string) error {
	objects, err := template.Objects([]byte(doc))
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := c.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}
