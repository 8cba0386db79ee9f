// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"strings"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/openapi"
)

// openAPI answers /openapi/v3 and the documents below it.
func (s *Server) openAPI(w http.ResponseWriter, r *request, parts []string) error {
	if len(parts) == 1 && parts[0] == "v2" {
		return s.openAPIV2(w, r)
	}
	if len(parts) == 0 || parts[0] != "v3" {
		return errNoPage
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
	describe(w, r, d, "application/json")
	return nil
}

// openAPIV2 answers /openapi/v2.
func (s *Server) openAPIV2(w http.ResponseWriter, r *request) error {
	const asProtobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	protobuf, media := strings.Contains(r.Header.Get("Accept"), asProtobuf), "application/json"
	if protobuf {
		media = strings.Replace(asProtobuf, "@", ".", 1)
	}
	d, err := openapi.V2(s.objects.Kinds(), protobuf)
	if err != nil {
		return err
	}
	describe(w, r, d, media)
	return nil
}

// describe sends a document, unless the client has it.
func describe(w http.ResponseWriter, r *request, d *openapi.Document, media string) {
	w.Header().Set("Etag", `"`+d.Tag+`"`)
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Content-Type", media)
	if strings.Contains(r.Header.Get("If-None-Match"), d.Tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(d.JSON) // a client that left needs no answer
}
