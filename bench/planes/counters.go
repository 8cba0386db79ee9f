// SPDX-License-Identifier: Apache-2.0

package planes

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// Request is the key by which requests are counted.
type Request struct {
	Verb, Resource string // resource with group and subresource, as in clusters.cluster.x-k8s.io/status
	Code           string
	DryRun         bool
}

// Requests counts requests since the API server started.
type Requests map[Request]float64

// Count is the number of requests with a verb and a resource.
type Count struct {
	Verb     string  `json:"verb"`
	Resource string  `json:"resource"`
	Count    float64 `json:"count"`
}

var writes = []string{"POST", "PUT", "PATCH", "DELETE", "APPLY"}

// Scrape reads the API server's own counters.
func Scrape(ctx context.Context, c rest.Interface) (Requests, error) {
	body, err := c.Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read metrics of the API server: %w", err)
	}
	defer func() { _ = body.Close() }()
	return parse(body)
}

func parse(r io.Reader) (Requests, error) {
	all := Requests{}
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
		q := Request{Verb: l["verb"], Resource: l["resource"], Code: l["code"], DryRun: l["dry_run"] != ""}
		if l["group"] != "" {
			q.Resource += "." + l["group"]
		}
		if l["subresource"] != "" {
			q.Resource += "/" + l["subresource"]
		}
		all[q] += n
	}
	return all, lines.Err()
}

// Since returns what was added after before.
func (r Requests) Since(before Requests) Requests {
	d := Requests{}
	for q, n := range r {
		if n -= before[q]; n > 0 {
			d[q] = n
		}
	}
	return d
}

// Sum adds up the requests for which match returns true.
func (r Requests) Sum(match func(Request) bool) (n float64) {
	for q, c := range r {
		if match(q) {
			n += c
		}
	}
	return n
}

// Counts groups by verb and resource, most first.
func (r Requests) Counts(match func(Request) bool) []Count {
	groups := map[[2]string]float64{}
	for q, n := range r {
		if match(q) {
			groups[[2]string{q.Verb, q.Resource}] += n
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

// Counted excludes the requests of the measurement itself, and dry runs.
func Counted(q Request) bool {
	return q.Resource != "" && q.Resource[0] != '/' && !q.DryRun && q.Verb != "WATCH"
}

// IsWrite reports whether a request that is counted changes something.
func IsWrite(q Request) bool { return Counted(q) && slices.Contains(writes, q.Verb) }

// IsConflict reports whether a change conflicted with another one.
func IsConflict(q Request) bool { return IsWrite(q) && q.Code == "409" }

// IsApply reports whether it is a server-side apply.
func IsApply(q Request) bool { return Counted(q) && q.Verb == "APPLY" }

// Decisions are the recorded decisions of the controllers of a plane.
type Decisions struct {
	Count int `json:"count"`
	KiB   int `json:"kib"`
}

// Recorded counts the decisions that a plane has recorded. It costs the plane CPU time,
// so it must not be called within a measured window.
func Recorded(ctx context.Context, c rest.Interface) (d Decisions, err error) {
	text, err := c.Get().AbsPath("/capstan/v1/decisions/").DoRaw(ctx)
	if err != nil {
		return d, fmt.Errorf("read the recorded decisions: %w", err)
	}
	var all struct{ Decisions []json.RawMessage }
	err = json.Unmarshal(text, &all)
	return Decisions{Count: len(all.Decisions), KiB: len(text) >> 10}, err
}
