// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/capstan-dev/capstan/extension/openapi"
	"github.com/capstan-dev/capstan/internal/access/extensions"
)

// Paths at which a management plane, and a manager on its metrics address,
// describes runtime extensions.
const (
	// ExtensionsPath has the state of each handler, as a JSON list.
	ExtensionsPath = "/capstan/v1/extensions"
	// HooksPath has the OpenAPI document of all hooks.
	HooksPath = "/capstan/v1/hooks/openapi.json"
)

// comeAgain is the Retry-After, in seconds, for requests before the controllers
// run.
const comeAgain = 1

// ExtensionPages describe runtime extensions over HTTP. They may be served before
// the manager that they describe is created. The zero value is ready to use.
type ExtensionPages struct {
	client atomic.Pointer[extensions.Client] // nil while the controllers do not run
}

func (p *ExtensionPages) show(c *extensions.Client) { p.client.Store(c) }

// Handlers returns the handlers by path.
func (p *ExtensionPages) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		ExtensionsPath: page(p.extensions),
		HooksPath:      page(func(w http.ResponseWriter) { body(w, openapi.JSON()) }),
	}
}

func (p *ExtensionPages) extensions(w http.ResponseWriter) {
	c := p.client.Load()
	if c == nil {
		w.Header().Set("Retry-After", strconv.Itoa(comeAgain))
		http.Error(w, "the controllers do not run yet", http.StatusServiceUnavailable)
		return
	}
	stats := c.Stats()
	if stats == nil {
		stats = []extensions.HandlerStats{} // a list, not null
	}
	data, err := json.Marshal(stats)
	if err != nil {
		http.Error(w, "encode what is known of extensions: "+err.Error(), http.StatusInternalServerError)
		return
	}
	body(w, data)
}

func body(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(data) // the client has disconnected
}

// page permits only reads.
func page(show func(http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is answered here", http.StatusMethodNotAllowed)
			return
		}
		show(w)
	})
}
