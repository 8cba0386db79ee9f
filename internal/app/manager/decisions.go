// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// DecisionPages returns the handlers of recorded decisions by path.
func DecisionPages(r *decisions.Recorder) map[string]http.Handler {
	return map[string]http.Handler{decisions.Path: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		page(func(w http.ResponseWriter) { showDecisions(w, r, req.URL.Path) }).ServeHTTP(w, req)
	})}
}

func showDecisions(w http.ResponseWriter, r *decisions.Recorder, path string) {
	of := strings.Split(strings.TrimPrefix(path, decisions.Path), "/")
	var found []json.RawMessage
	switch {
	case len(of) == 1 && of[0] == "":
		found = r.All()
	case len(of) == 3 && of[0] == strings.ToLower(of[0]):
		found = r.List(of[0], of[1], of[2])
	default:
		http.Error(w, "the path of decisions is "+decisions.Path+"kind/namespace/name, with the kind in lower case", http.StatusNotFound)
		return
	}
	if found == nil {
		found = []json.RawMessage{} // a list, not null
	}
	data, err := decisions.Encode(map[string]any{"decisions": found})
	if err != nil {
		http.Error(w, "encode decisions: "+err.Error(), http.StatusInternalServerError)
		return
	}
	body(w, data)
}
