// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// event is what a watch sends, as far as tests check it.
type event struct {
	Type   string
	Object struct {
		Kind     string
		Metadata metav1.ObjectMeta
		Reason   string
		Rows     []struct{ Cells []any }
	}
}

// watching reads the events of a watch, one at each call.
func watching(t *testing.T, cfg *rest.Config, path, accept string) func() event {
	t.Helper()
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		r := bufio.NewReader(resp.Body)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	return func() (ev event) {
		t.Helper()
		select {
		case line, ok := <-lines:
			if !ok {
				return event{Type: "END"}
			}
			if err := json.Unmarshal([]byte(line), &ev); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no event")
		}
		return ev
	}
}

func (e event) String() string { return strings.TrimSpace(e.Type + " " + e.Object.Metadata.Name) }

func TestAWatchWithASelectorSeesObjectsComeAndGo(t *testing.T) {
	t.Parallel()
	c := start(t)
	next := watching(t, c.admin(t), "/api/v1/nodes?watch=true&labelSelector=pool%3Dn", "application/json")
	n := node("n")
	steps := []func() error{
		func() error { return c.Store().Add(node("other")) },
		func() error { return c.Store().Add(n) },
		func() error { n.Labels["pool"] = "elsewhere"; return c.Store().Save(n) },
		func() error { n.Labels["more"] = "x"; return c.Store().Save(n) },
		func() error { n.Labels["pool"] = "n"; return c.Store().Save(n) },
		func() error { n.Labels["more"] = "y"; return c.Store().Save(n) },
		func() error { return c.Store().Remove(nodesGVR, "", "n") },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	var got []string
	for range 5 {
		got = append(got, next().String())
	}
	want := []string{"ADDED n", "DELETED n", "ADDED n", "MODIFIED n", "DELETED n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestWatchStartsAtRequestedVersion(t *testing.T) {
	t.Parallel()
	c := start(t)
	cfg := c.admin(t)
	for _, name := range []string{"a", "b", "c"} {
		if err := c.Store().Add(node(name)); err != nil {
			t.Fatal(err)
		}
	}
	b := node("b")
	if err := c.Store().Load(b); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		query string
		want  []string
	}{
		"after a version":         {"&resourceVersion=" + b.ResourceVersion, []string{"ADDED c"}},
		"with all there is":       {"", []string{"ADDED a", "ADDED b", "ADDED c"}},
		"with all, as a list":     {"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", []string{"ADDED a", "ADDED b", "ADDED c", "BOOKMARK"}},
		"after the first version": {"&resourceVersion=1", []string{"ADDED a", "ADDED b", "ADDED c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			next := watching(t, cfg, "/api/v1/nodes?watch=true"+tc.query, "application/json")
			var got []string
			var last event
			for range tc.want {
				last = next()
				got = append(got, last.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if last.Type == "BOOKMARK" && last.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("the bookmark does not say that it ends the list: %+v", last.Object.Metadata)
			}
		})
	}
}

func TestWatchOfOldVersionExpires(t *testing.T) {
	t.Parallel()
	c := start(t)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "big"}}
	if err := c.Store().Add(cm); err != nil {
		t.Fatal(err)
	}
	first := cm.ResourceVersion
	for i := range 8 {
		cm.Data = map[string]string{"x": strings.Repeat(string(rune('a'+i)), 100<<10)}
		if err := c.Store().Save(cm); err != nil {
			t.Fatal(err)
		}
	}
	next := watching(t, c.admin(t), "/api/v1/configmaps?watch=true&resourceVersion="+first, "application/json")
	if ev := next(); ev.Type != "ERROR" || ev.Object.Reason != string(metav1.StatusReasonExpired) {
		t.Errorf("event %+v, want that the version has expired", ev)
	}
	if ev := next(); ev.Type != "END" {
		t.Errorf("event %+v after the error", ev)
	}
}

func TestWatchOfFutureVersionExpires(t *testing.T) {
	t.Parallel()
	if got := answers(t, start(t).admin(t), "/api/v1/nodes?watch=true&resourceVersion=999999"); got != http.StatusGone {
		t.Errorf("answers %d, want 410", got)
	}
}

func TestAWatchOfTablesShowsRows(t *testing.T) {
	t.Parallel()
	c := start(t)
	next := watching(t, c.admin(t), "/api/v1/nodes?watch=true", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	if err := c.Store().Add(node("n")); err != nil {
		t.Fatal(err)
	}
	ev := next()
	if ev.Object.Kind != "Table" || len(ev.Object.Rows) != 1 || ev.Object.Rows[0].Cells[0] != "n" {
		t.Errorf("event %+v", ev)
	}
}

func TestAWatchEndsWithItsTime(t *testing.T) {
	t.Parallel()
	next := watching(t, start(t).admin(t), "/api/v1/nodes?watch=true&timeoutSeconds=1", "application/json")
	if ev := next(); ev.Type != "END" {
		t.Errorf("event %+v, want none", ev)
	}
}

func TestAWatchEndsWithTheServer(t *testing.T) {
	t.Parallel()
	c := start(t)
	next := watching(t, c.admin(t), "/api/v1/nodes?watch=true", "application/json")
	c.Close()
	if ev := next(); ev.Type != "END" {
		t.Errorf("event %+v, want none", ev)
	}
}
