// SPDX-License-Identifier: Apache-2.0

// Package requestmetrics counts the requests of a server, in the names of an API
// server's metrics.
package requestmetrics

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// Request is the attributes by which requests are counted.
type Request struct {
	Verb, Group, Version, Resource, Sub string
	Code                                int
}

// Requests counts how many there were of each.
type Requests struct {
	mu sync.Mutex // guards of
	of map[Request]int
}

// Count adds one.
func (c *Requests) Count(r Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[Request]int{}
	}
	c.of[r]++
}

// Write writes the counts as a metric.
func (c *Requests) Write(w io.Writer) {
	c.mu.Lock()
	counts := maps.Clone(c.of)
	c.mu.Unlock()
	_, _ = fmt.Fprint(w, "# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.\n# TYPE apiserver_request_total counter\n")
	for _, r := range slices.SortedFunc(maps.Keys(counts), compare) {
		_, _ = fmt.Fprintf(w, "apiserver_request_total{code=\"%d\",component=\"apiserver\",dry_run=\"\",group=%q,resource=%q,scope=\"\",subresource=%q,verb=%q,version=%q} %d\n",
			r.Code, r.Group, r.Resource, r.Sub, r.Verb, r.Version, counts[r])
	}
}

func compare(a, b Request) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Resource, b.Resource),
		cmp.Compare(a.Sub, b.Sub), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Code, b.Code))
}
