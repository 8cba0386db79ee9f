// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// counted is what metrics tell of requests: how many of each kind there were.
type counted struct {
	mu       sync.Mutex // guards requests
	requests map[counter]int
}

type counter struct {
	verb, group, version, resource, sub string
	code                                int
}

// count adds a request that was answered with a code.
func (c *counted) count(r *request, code int) {
	key := counter{strings.ToUpper(r.verb), r.gvr.Group, r.gvr.Version, r.gvr.Resource, r.sub, code}
	if r.kind == nil { // what is not served is not told apart: clients could invent names without end
		key = counter{verb: strings.ToUpper(r.verb), code: code}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests = map[counter]int{}
	}
	c.requests[key]++
}

// metrics answers /metrics, in the names of an API server.
func (s *Server) metrics(w http.ResponseWriter) {
	var b strings.Builder
	b.WriteString("# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.\n# TYPE apiserver_request_total counter\n")
	for _, c := range s.counted.sorted() {
		fmt.Fprintf(&b, "apiserver_request_total{code=\"%d\",component=\"apiserver\",dry_run=\"\",group=%q,resource=%q,scope=\"\",subresource=%q,verb=%q,version=%q} %d\n",
			c.code, c.group, c.resource, c.sub, c.verb, c.version, c.n)
	}
	b.WriteString("# HELP apiserver_storage_objects [STABLE] Number of stored objects at the time of last check split by kind.\n# TYPE apiserver_storage_objects gauge\n")
	for _, k := range s.objects.Kinds().All() {
		if entries, _ := s.objects.Entries().List(k.Stored(), ""); len(entries) > 0 && k.GroupVersionKind == k.StoredAs {
			fmt.Fprintf(&b, "apiserver_storage_objects{resource=%q} %d\n", k.GroupResource().String(), len(entries))
		}
	}
	v := s.versionInfo()
	fmt.Fprintf(&b, "# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.\n# TYPE kubernetes_build_info gauge\nkubernetes_build_info{git_version=%q,major=%q,minor=%q} 1\n", v.GitVersion, v.Major, v.Minor)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
	_, _ = w.Write([]byte(b.String())) // a client that left needs no answer
}

type count struct {
	counter
	n int
}

func (c *counted) sorted() []count {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []count
	for key, n := range c.requests {
		all = append(all, count{key, n})
	}
	slices.SortFunc(all, func(a, b count) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.version, b.version), cmp.Compare(a.resource, b.resource),
			cmp.Compare(a.sub, b.sub), cmp.Compare(a.verb, b.verb), cmp.Compare(a.code, b.code))
	})
	return all
}

// recorder remembers the code of an answer.
type recorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap lets an http.ResponseController reach what it wraps.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
