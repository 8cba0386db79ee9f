// SPDX-License-Identifier: Apache-2.0

// Package openapi documents the kinds of a plane on demand. kube-apiserver writes
// the documents of all Kubernetes kinds whenever it starts, and those of custom
// resources twice: a fifth of the cost of the start of an empty plane. It hashes
// each so that clients can cache it; few clients request them, the kinds of
// Kubernetes are the same in each process of one build, and those of a
// CustomResourceDefinition as long as its spec does not change.
package openapi

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/handler3"
)

const root = "/openapi/v3"

// Defer prevents the server of a config from writing documents at its start.
func Defer(c *genericapiserver.Config) { c.SkipOpenAPIInstallation = true }

// Serve lets server answer requests for the documents of its kinds, with the config
// that it was created from. Call it before PrepareRun.
func Serve(server *genericapiserver.GenericAPIServer, c *genericapiserver.Config) {
	container, to := server.Handler.GoRestfulContainer, server.Handler.NonGoRestfulMux
	to.Handle("/openapi/v2", onDemand(func(m *mux.PathRecorderMux) {
		routes.OpenAPI{Config: c.OpenAPIConfig}.InstallV2(container, m)
	}))
	builtIn(server, c).serve(to)
}

// builtIn are the groups of a server's own kinds.
func builtIn(server *genericapiserver.GenericAPIServer, c *genericapiserver.Config) groups {
	container, hash := server.Handler.GoRestfulContainer, build(c.OpenAPIV3Config.Info.Version)
	return groups{
		hashes: func() map[string]string {
			all := map[string]string{}
			for _, service := range container.RegisteredWebServices() {
				all[strings.TrimPrefix(service.RootPath(), "/")] = hash
			}
			return all
		},
		documents: onDemand(func(m *mux.PathRecorderMux) { routes.OpenAPI{V3Config: c.OpenAPIV3Config}.InstallV3(container, m) }),
	}
}

// onDemand calls install with a mux at the first request.
func onDemand(install func(*mux.PathRecorderMux)) http.Handler {
	made := sync.OnceValue(func() http.Handler {
		m := mux.NewPathRecorderMux("openapi")
		install(m)
		return m
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) })
}

// build returns a common hash of the documents of one build, instead of a hash of
// each, for which the document would have to be written.
func build(version string) string {
	info, _ := debug.ReadBuildInfo() // never nil in a program that was built with modules
	return fmt.Sprintf("%X", sha256.Sum256(fmt.Append(nil, version, info)))
}

// groups serves a document for each version of an API group.
type groups struct {
	hashes    func() map[string]string // of the existing groups, by their names
	documents http.Handler
}

func (g groups) serve(to *mux.PathRecorderMux) {
	to.Handle(root, http.HandlerFunc(g.list))
	to.HandlePrefix(root+"/", http.HandlerFunc(g.document))
}

// list lists the groups. The aggregator requests it each second.
func (g groups) list(w http.ResponseWriter, _ *http.Request) {
	all := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for name, hash := range g.hashes() {
		all.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: url(name, hash)}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // a client that does not read to the end has disconnected
}

func url(name, hash string) string { return root + "/" + name + "?hash=" + hash }

// document serves a document; at a URL from list, clients may cache it forever.
func (g groups) document(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, root+"/")
	current, found := g.hashes()[name]
	switch hash := r.URL.Query().Get("hash"); {
	case !found:
		http.NotFound(w, r)
		return
	case hash == "":
	case hash == current:
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
		r = r.Clone(r.Context())
		r.URL.RawQuery = ""
	default:
		http.Redirect(w, r, url(name, current), http.StatusMovedPermanently)
		return
	}
	g.documents.ServeHTTP(w, r)
}
