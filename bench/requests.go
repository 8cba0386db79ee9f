// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// request is what requests are told apart by.
type request struct {
	verb, resource string // resource with group and subresource, as in clusters.cluster.x-k8s.io/status
	code           string
	dryRun         bool
}

// requests counts requests since the API server started.
type requests map[request]float64

// Count is one line of the report.
type Count struct {
	Verb     string  `json:"verb"`
	Resource string  `json:"resource"`
	Count    float64 `json:"count"`
}

var writes = []string{"POST", "PUT", "PATCH", "DELETE", "APPLY"}

// scrape reads the API server's own counters.
func scrape(ctx context.Context, c rest.Interface) (requests, error) {
	body, err := c.Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read metrics of the API server: %w", err)
	}
	defer func() { _ = body.Close() }()
	return parse(body)
}

func parse(r io.Reader) (requests, error) {
	all := requests{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, value, ok := strings.Cut(rest, "} ")
		n, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("read metric %q: %w", lines.Text(), err)
		}
		l := map[string]string{}
		for pair := range strings.SplitSeq(labels, ",") {
			name, quoted, _ := strings.Cut(pair, "=")
			l[name] = strings.Trim(quoted, `"`)
		}
		q := request{verb: l["verb"], resource: l["resource"], code: l["code"], dryRun: l["dry_run"] != ""}
		if l["group"] != "" {
			q.resource += "." + l["group"]
		}
		if l["subresource"] != "" {
			q.resource += "/" + l["subresource"]
		}
		all[q] += n
	}
	return all, lines.Err()
}

// since returns what was added after before.
func (r requests) since(before requests) requests {
	d := requests{}
	for q, n := range r {
		if n -= before[q]; n > 0 {
			d[q] = n
		}
	}
	return d
}

// sum adds up the requests that match says so of.
func (r requests) sum(match func(request) bool) (n float64) {
	for q, c := range r {
		if match(q) {
			n += c
		}
	}
	return n
}

// counts groups by verb and resource, most first.
func (r requests) counts(match func(request) bool) []Count {
	groups := map[[2]string]float64{}
	for q, n := range r {
		if match(q) {
			groups[[2]string{q.verb, q.resource}] += n
		}
	}
	lines := make([]Count, 0, len(groups))
	for k := range maps.Keys(groups) {
		lines = append(lines, Count{k[0], k[1], groups[k]})
	}
	slices.SortFunc(lines, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return lines
}

// counted leaves out what the measuring itself adds, and checks that a client
// makes without effect.
func counted(q request) bool {
	return q.resource != "" && q.resource[0] != '/' && !q.dryRun && q.verb != "WATCH"
}

func isWrite(q request) bool { return counted(q) && slices.Contains(writes, q.verb) }

func isConflict(q request) bool { return isWrite(q) && q.code == "409" }

func isApply(q request) bool { return counted(q) && q.verb == "APPLY" }
