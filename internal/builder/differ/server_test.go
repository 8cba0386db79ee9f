// SPDX-License-Identifier: Apache-2.0

package differ_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/builder/differ"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestAnApplyToAServerIsForetold shows that the server in this process is
// realistic: a real one, with its webhooks and CEL rules, agrees.
func TestAnApplyToAServerIsForetold(t *testing.T) {
	env := testenv.Start(t)
	crds, err := differ.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		if crd.Name == differ.Knots {
			env.Define(t, crd)
		}
	}
	o := options(t, 60)
	o.Namespace, o.Webhooks = env.Namespace, true
	if o.Server, err = differ.Remote(env.Config); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{} // an owner that exists, or objects are collected as garbage
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: env.Namespace}, ns); err != nil {
		t.Fatal(err)
	}
	o.Owner = map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": ns.Name, "uid": string(ns.UID)}
	testenv.Eventually(t, func() error {
		_, code, err := o.Server.Do(t.Context(), differ.Request{Method: "GET", Path: "/apis/differ.capstan.dev/v1/namespaces/" + env.Namespace + "/knots"})
		if err == nil && code != 200 {
			err = fmt.Errorf("not served yet: %d", code)
		}
		return err
	})
	run(t, o)
}
