// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestApplyToServerIsPredicted shows that the server in this process is
// realistic: a real one, with its webhooks and CEL rules, agrees.
func TestApplyToServerIsPredicted(t *testing.T) {
	env := testenv.Start(t)
	crds, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		if crd.Name == Knots {
			env.Define(t, crd)
		}
	}
	o := options(t, 60)
	o.Namespace, o.Webhooks = env.Namespace, true
	if o.Server, err = Remote(env.Config); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{} // an owner that exists, or objects are collected as garbage
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: env.Namespace}, ns); err != nil {
		t.Fatal(err)
	}
	o.Owner = map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": ns.Name, "uid": string(ns.UID)}
	testenv.Eventually(t, func() error {
		_, code, err := o.Server.Do(t.Context(), Request{Method: "GET", Path: "/apis/differ.capstan.dev/v1/namespaces/" + env.Namespace + "/knots"})
		if err == nil && code != 200 {
			err = fmt.Errorf("not served yet: %d", code)
		}
		return err
	})
	run(t, o)
}

// Server answers requests as an API server does.
type Server interface {
	Do(ctx context.Context, r Request) (answer map[string]any, code int, err error)
}

// Remote is a Server over the network.
func Remote(cfg *rest.Config) (Server, error) {
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &remote{cfg.Host, c}, nil
}

type remote struct {
	host string
	http *http.Client
}

// Do implements Server; it decodes the answer as an unstructured client does.
func (s *remote) Do(ctx context.Context, r Request) (answer map[string]any, code int, err error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, s.host+r.Path+"?"+r.Query, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", r.Type)
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, 0, err
	}
	if err := utiljson.Unmarshal(text, &answer); err != nil {
		return nil, resp.StatusCode, fmt.Errorf("%d: %s", resp.StatusCode, text)
	}
	return answer, resp.StatusCode, nil
}
