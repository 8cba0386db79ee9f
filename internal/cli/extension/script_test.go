// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/server"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// serviceName is a Service of the extension, in the namespace default.
const serviceName = "extension-of-scripts"

// TestScripts runs every script of testdata/script with the real program, a
// real plane and an extension in this process, which they share. $URL, $CA and
// $SERVICE with $PORT are those of the extension; $NAME is a name that no other
// script uses.
func TestScripts(t *testing.T) {
	program := testenv.Binary(t)
	ours, growing := startExtension(t), startGrowing(t)
	url, ca := ours.URL(), filepath.Join(t.TempDir(), "ca.crt")
	authorities := append(ours.CABundle(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: growing.Certificate().Raw})...)
	if err := os.WriteFile(ca, authorities, 0o600); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			plane := testenv.Start(t)
			for key, value := range map[string]string{
				"KUBECONFIG": plane.Kubeconfig, "NAME": plane.Namespace, "URL": url, "CA": ca, "GROWING": growing.URL,
				"SERVICE": "default/" + serviceName, "PORT": url[strings.LastIndex(url, ":")+1:],
			} {
				env.Setenv(key, value)
			}
			service := &corev1.Service{}
			service.Namespace, service.Name = "default", serviceName
			service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
			return errors.Join(client.IgnoreAlreadyExists(plane.Client.Create(t.Context(), service)),
				builder.Home(env, program))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": builder.Exits,
			"until": builder.Until,
			// grow gives the extension at $GROWING another handler.
			"grow": func(ts *testscript.TestScript, _ bool, _ []string) {
				answer, err := growing.Client().Get(growing.URL + "/grow")
				ts.Check(err)
				ts.Check(answer.Body.Close())
			},
		},
	})
}

// startExtension serves hooks until the test ends.
func startExtension(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.New(server.Options{Address: "127.0.0.1:0", Hosts: []string{serviceName + ".default.svc"}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		server.Handle(s, hooksv1.BeforeClusterCreate, freeze, server.Name("freeze")),
		server.Handle(s, hooksv1.BeforeClusterDelete, refuse, server.Name("refuse")),
		server.Handle(s, hooksv1.BeforeClusterUpgrade, nothing, server.Name("first")),
		server.Handle(s, hooksv1.BeforeClusterUpgrade, nothing, server.Name("second"), server.OnFailure(hooksv1.FailurePolicyIgnore)),
		server.Handle(s, hooksv1.AfterControlPlaneInitialized, moody, server.Name("moody")),
		server.Handle(s, hooksv1.GeneratePatches, label, server.Name("label")),
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return s
}

// startGrowing serves one handler, and after a call of /grow two.
func startGrowing(t *testing.T) *httptest.Server {
	t.Helper()
	var stages [2]*server.Server
	for i := range stages {
		s, err := server.New(server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"first", "second"}[:i+1] {
			if err := server.Handle(s, hooksv1.BeforeClusterUpgrade, nothing, server.Name(name)); err != nil {
				t.Fatal(err)
			}
		}
		stages[i] = s
	}
	var stage atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/grow" {
			stage.Store(1)
			return
		}
		stages[stage.Load()].ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func freeze(_ context.Context, req *hooksv1.BeforeClusterCreateRequest, resp *hooksv1.BeforeClusterCreateResponse) error {
	if req.Settings["freeze"] == "true" {
		resp.Message, resp.RetryAfterSeconds = "no new clusters in "+req.Cluster.Namespace, 30
	}
	return nil
}

func refuse(context.Context, *hooksv1.BeforeClusterDeleteRequest, *hooksv1.BeforeClusterDeleteResponse) error {
	return errors.New("the backup is too old")
}

var calls atomic.Int64

// moody does not keep the contract: the same request fails every other time.
func moody(context.Context, *hooksv1.AfterControlPlaneInitializedRequest, *hooksv1.AfterControlPlaneInitializedResponse) error {
	if calls.Add(1)%2 == 0 {
		return errors.New("not now")
	}
	return nil
}

func nothing(context.Context, *hooksv1.BeforeClusterUpgradeRequest, *hooksv1.BeforeClusterUpgradeResponse) error {
	return nil
}

func label(_ context.Context, req *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse) error {
	for _, item := range req.Items {
		resp.Items = append(resp.Items, hooksv1.GeneratePatchesResponseItem{
			UID: item.UID, PatchType: hooksv1.JSONMergePatchType, Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		})
	}
	return nil
}
