// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conformance/extension"
	"github.com/capstan-dev/capstan/extension/mutation"
	"github.com/capstan-dev/capstan/extension/server"
)

// hooksOfGood are the hooks that good answers, with each kind of hook.
var hooksOfGood = []string{
	"BeforeClusterCreate", "AfterControlPlaneInitialized", "GeneratePatches", "ValidateTopology", "DiscoverVariables",
	"CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine", "GenerateUpgradePlan",
}

// good is an extension that keeps the contract.
func good(t *testing.T) http.Handler {
	t.Helper()
	s, err := server.New(server.Options{MaxRequestBytes: 1 << 20}) // large bodies take time
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		server.Handle(s, hooksv1.BeforeClusterCreate, func(context.Context, *hooksv1.BeforeClusterCreateRequest, *hooksv1.BeforeClusterCreateResponse) error {
			return nil
		}, server.Timeout(2*time.Second)),
		server.Handle(s, hooksv1.AfterControlPlaneInitialized, func(context.Context, *hooksv1.AfterControlPlaneInitializedRequest, *hooksv1.AfterControlPlaneInitializedResponse) error {
			return nil
		}),
		server.Handle(s, hooksv1.GeneratePatches, func(ctx context.Context, req *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse) error {
			return mutation.GeneratePatches(ctx, req, resp, controlPlane(func(registry *string) error {
				*registry = "registry.example.com"
				return nil
			}))
		}),
		server.Handle(s, hooksv1.ValidateTopology, func(ctx context.Context, req *hooksv1.ValidateTopologyRequest, _ *hooksv1.ValidateTopologyResponse) error {
			return mutation.ValidateTopology(ctx, req, controlPlane(func(registry *string) error {
				if *registry != "registry.example.com" {
					return errors.New("the registry is missing")
				}
				return nil
			}))
		}),
		server.Handle(s, hooksv1.DiscoverVariables, func(_ context.Context, _ *hooksv1.DiscoverVariablesRequest, resp *hooksv1.DiscoverVariablesResponse) error {
			text := clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{Type: "string"}}
			resp.Variables = []clusterv1.ClusterClassVariable{{Name: "imageRepository", Required: new(false), Schema: text}, {Name: "other", Required: new(true), Schema: text}}
			return nil
		}),
		server.Handle(s, hooksv1.CanUpdateMachine, func(_ context.Context, req *hooksv1.CanUpdateMachineRequest, resp *hooksv1.CanUpdateMachineResponse) (err error) {
			resp.BootstrapConfigPatch, err = mutation.Take(req.Current.BootstrapConfig, req.Desired.BootstrapConfig, "spec.files")
			return err
		}),
		server.Handle(s, hooksv1.CanUpdateMachineSet, func(_ context.Context, req *hooksv1.CanUpdateMachineSetRequest, resp *hooksv1.CanUpdateMachineSetResponse) (err error) {
			resp.BootstrapConfigTemplatePatch, err = mutation.Take(req.Current.BootstrapConfigTemplate, req.Desired.BootstrapConfigTemplate, "spec.template.spec.files")
			return err
		}),
		server.Handle(s, hooksv1.UpdateMachine, func(_ context.Context, _ *hooksv1.UpdateMachineRequest, resp *hooksv1.UpdateMachineResponse) error {
			resp.RetryAfterSeconds = 15
			return nil
		}),
		server.Handle(s, hooksv1.GenerateUpgradePlan, func(_ context.Context, req *hooksv1.GenerateUpgradePlanRequest, resp *hooksv1.GenerateUpgradePlanResponse) error {
			if req.FromControlPlaneKubernetesVersion != "v1.34.3" || req.ToKubernetesVersion != "v1.36.0" {
				return errors.New("from where to where?")
			}
			resp.ControlPlaneUpgrades = []hooksv1.UpgradeStep{{Version: "v1.35.2"}, {Version: "v1.36.0"}}
			resp.WorkersUpgrades = []hooksv1.UpgradeStep{{Version: "v1.36.0"}}
			return nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func controlPlane(visit func(registry *string) error) mutation.Visit {
	return mutation.For(controlplanev1.GroupVersion().WithKind("KubeadmControlPlaneTemplate"), func(_ context.Context, _ *mutation.Template, cp *controlplanev1.KubeadmControlPlaneTemplate) error {
		return visit(&cp.Spec.Template.Spec.KubeadmConfigSpec.ClusterConfiguration.ImageRepository)
	})
}

// serve serves an extension over TLS and returns how to reach it.
func serve(t *testing.T, h http.Handler) extension.Config {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(func() { _ = s.Config.Close() }) // s.Close would wait for connections that linger
	return extension.Config{URL: s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
}

// middleware puts something before an extension.
type middleware func(next http.Handler) http.Handler

// at applies only to calls of the handlers for a hook.
func at(hook string, m middleware) middleware {
	return func(next http.Handler) http.Handler {
		spoiled := m(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path+"/", "/"+strings.ToLower(hook)+"/") && !strings.Contains(r.URL.Path, "conformance") {
				spoiled.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// call is the text of a request and of its answer, to be changed.
type call struct {
	request, answer map[string]any
	status          int
}

// answers changes the answers of a hook that can be read.
func answers(hook string, change func(c *call)) middleware {
	return at(hook, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			c := call{status: rec.Code}
			if err == nil && rec.Code == http.StatusOK && json.Unmarshal(body, &c.request) == nil && json.Unmarshal(rec.Body.Bytes(), &c.answer) == nil {
				change(&c)
				text, _ := json.Marshal(c.answer)
				rec.Body = bytes.NewBuffer(text)
			}
			w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
			w.WriteHeader(c.status)
			_, _ = w.Write(rec.Body.Bytes())
		})
	})
}

// set changes one field of the answers of a hook.
func set(hook, field string, value any) middleware {
	return answers(hook, func(c *call) { c.answer[field] = value })
}

// requests changes the requests of a hook before the extension sees them.
func requests(hook string, change func(r *http.Request, body []byte) []byte) middleware {
	return at(hook, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			body = change(r, body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			next.ServeHTTP(w, r)
		})
	})
}

// always answers every call of a hook by f.
func always(hook string, f http.HandlerFunc) middleware {
	return at(hook, func(http.Handler) http.Handler { return f })
}
