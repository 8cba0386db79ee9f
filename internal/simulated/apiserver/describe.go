// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/openapi"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/requestmetrics"
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

// counted are the verbs that are counted each.
var counted = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// count adds a request that was answered with a code. Verbs and paths that are not served
// are not distinguished, because clients can invent any number of them, and no text of a
// request is kept, because it refers to all of its URL.
func (s *Server) count(r *request, code int) {
	c := requestmetrics.Request{Verb: "OTHER", Code: code}
	if slices.Contains(counted, r.verb) {
		c.Verb = strings.ToUpper(r.verb)
	}
	if k := r.kind; k != nil && k.HasSub(r.sub) {
		c.Group, c.Version, c.Resource, c.Sub = k.Group, k.Version, k.Resource, strings.Clone(r.sub)
	}
	s.counted.Count(c)
}

// metrics answers /metrics, in the names of an API server.
func (s *Server) metrics(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
	s.counted.Write(w)
	_, _ = fmt.Fprint(w, "# HELP apiserver_storage_objects [STABLE] Number of stored objects at the time of last check split by kind.\n# TYPE apiserver_storage_objects gauge\n")
	for _, k := range s.objects.Kinds().All() {
		if entries, _ := s.objects.Entries().List(k.Stored(), ""); len(entries) > 0 && k.GroupVersionKind == k.StoredAs {
			_, _ = fmt.Fprintf(w, "apiserver_storage_objects{resource=%q} %d\n", k.GroupResource().String(), len(entries))
		}
	}
	v := s.versionInfo()
	_, _ = fmt.Fprintf(w, "# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value labeled by the version.\n# TYPE kubernetes_build_info gauge\nkubernetes_build_info{git_version=%q,major=%q,minor=%q} 1\n", v.GitVersion, v.Major, v.Minor)
}
