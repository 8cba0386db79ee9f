// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"strings"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/openapi"
)

// openAPI answers /openapi/v3 and the documents below it.
func (s *Server) openAPI(w http.ResponseWriter, r *request, parts []string) error {
	if len(parts) == 0 || parts[0] != "v3" {
		return notServed()
	}
	if len(parts) == 1 {
		return respond(w, http.StatusOK, openapi.Index(s.objects.Kinds()))
	}
	d, err := openapi.Of(s.objects.Kinds(), strings.Join(parts[1:], "/"))
	if err != nil {
		return err
	}
	if d == nil {
		return notServed()
	}
	w.Header().Set("Etag", `"`+d.Tag+`"`)
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("If-None-Match"), d.Tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	respondRaw(w, http.StatusOK, d.JSON)
	return nil
}
