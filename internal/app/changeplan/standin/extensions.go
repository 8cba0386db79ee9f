// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/sim"
)

// decisive are the hooks whose answers decide what happens. They have no side effects
// by contract, so the real extensions are called.
var decisive = []string{"GeneratePatches", "ValidateTopology", "DiscoverVariables", "CanUpdateMachine", "CanUpdateMachineSet"}

// hooks answer for runtime extensions, and record the calls. They implement
// extensions.Poster.
type hooks struct {
	clock *sim.Clock
	start time.Time
	real  extensions.Poster // nil calls none
	calls []planv1.Hook
	// failed is the first decisive hook that could not be called, and why.
	failed string
}

// Post implements extensions.Poster.
func (h *hooks) Post(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	var request metav1.TypeMeta
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, fmt.Errorf("read a request to %s: %w", e.Host(), err)
	}
	hook := strings.TrimSuffix(request.Kind, "Request")
	handler := ""
	if parts := strings.Split(strings.TrimPrefix(path, "/"), "/"); len(parts) > 3 {
		handler = parts[3]
	}
	if !slices.Contains(decisive, hook) {
		h.calls = append(h.calls, planv1.Hook{Hook: hook, Handler: handler, After: metav1.Duration{Duration: h.clock.Now().Sub(h.start)}})
		return json.Marshal(map[string]string{"apiVersion": request.APIVersion, "kind": hook + "Response", "status": "Success"})
	}
	err := fmt.Errorf("the extension at %s cannot be called from here", e.Host())
	if h.real != nil {
		var answer []byte
		if answer, err = h.real.Post(ctx, e, path, body); err == nil {
			return answer, nil
		}
	}
	if h.failed == "" {
		h.failed = fmt.Sprintf("hook %s: %v", hook, err)
	}
	return nil, err
}

// Probe implements extensions.Poster.
func (h *hooks) Probe(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	return h.Post(ctx, e, path, body)
}

// Forget implements extensions.Poster.
func (*hooks) Forget(transport.Endpoint) {}
