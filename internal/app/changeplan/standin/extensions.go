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
	"k8s.io/apimachinery/pkg/types"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/sim"
)

// decisive are the hooks whose answers decide what happens. They have no side effects
// by contract, so the real extensions are called.
var decisive = []string{"GeneratePatches", "ValidateTopology", "DiscoverVariables", "CanUpdateMachine", "CanUpdateMachineSet"}

// leastUpdate is how long an update of a Machine in place takes at least.
const leastUpdate = 10 * time.Second

// hooks answer for runtime extensions, and record the calls. They implement
// extensions.Poster.
type hooks struct {
	clock   *sim.Clock
	start   time.Time
	real    extensions.Poster // nil calls none
	calls   []planv1.Hook
	update  time.Duration           // how long the update of a Machine takes
	updates map[types.UID]time.Time // when those in progress end, by Machine
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
		call, answer := true, map[string]any{"apiVersion": request.APIVersion, "kind": hook + "Response", "status": "Success"}
		if hook == "UpdateMachine" {
			left, started, err := h.updating(body)
			if err != nil {
				return nil, fmt.Errorf("read a request to %s: %w", e.Host(), err)
			}
			call, answer["retryAfterSeconds"] = !started, (left+time.Second-1)/time.Second
		}
		if call {
			h.calls = append(h.calls, planv1.Hook{Hook: hook, Handler: handler, After: metav1.Duration{Duration: h.clock.Now().Sub(h.start)}})
		}
		return json.Marshal(answer)
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

// updating is how long the update of a Machine still takes: as long as a real one, in which
// the Machine is not available. It reports whether it was started before.
func (h *hooks) updating(body []byte) (left time.Duration, started bool, err error) {
	var q hooksv1.UpdateMachineRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return 0, false, err
	}
	machine := q.Desired.Machine.UID
	ends, started := h.updates[machine]
	if !started {
		ends = h.clock.Now().Add(h.update)
		h.updates[machine] = ends
	}
	if left = ends.Sub(h.clock.Now()); left <= 0 {
		delete(h.updates, machine) // the next one takes as long
	}
	return max(left, 0), started, nil
}

// Probe implements extensions.Poster.
func (h *hooks) Probe(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	return h.Post(ctx, e, path, body)
}

// Forget implements extensions.Poster.
func (*hooks) Forget(transport.Endpoint) {}
