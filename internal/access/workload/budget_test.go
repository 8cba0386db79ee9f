// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (b *budget) taken() int64 { b.mu.Lock(); defer b.mu.Unlock(); return b.used }

func TestSomethingIsAlwaysLeftOfABudget(t *testing.T) {
	t.Parallel()
	b := &budget{total: 1000, small: 10}
	greedy := make([]*claim, 20)
	for i := range greedy {
		greedy[i] = b.claim()
		for size := int64(1); greedy[i].resize(size); size++ {
		}
	}
	if b.used > b.total || greedy[0].size != 510 {
		t.Errorf("used %d of %d, %d by the first", b.used, b.total, greedy[0].size)
	}
	small := b.claim()
	if !small.resize(10) {
		t.Error("no room for a small claim")
	}
	for _, c := range append(greedy, small) {
		c.close()
		if c.resize(1) {
			t.Error("a closed claim grows")
		}
	}
	if b.used != 0 {
		t.Errorf("%d used by no cluster", b.used)
	}
}

func TestSizeOfCountsWhatIsReferredTo(t *testing.T) {
	t.Parallel()
	empty, full := sizeOf(&corev1.Pod{}), sizeOf(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: make([]corev1.ContainerStatus, 1000)}})
	if got := full - empty; got < 200_000 || got > 300_000 {
		t.Errorf("a thousand empty structs take %d", got)
	}
	named := sizeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now(), Labels: map[string]string{"key": strings.Repeat("x", 5000)}}})
	if got := named - sizeOf(&corev1.Node{}); got < 5000 || got > 5100 {
		t.Errorf("a label of 5000 letters takes %d", got)
	}
}

func TestMeterBoundsAnswers(t *testing.T) {
	t.Parallel()
	managed := `{"fieldsV1":{` + strings.TrimSuffix(strings.Repeat(`"f:a":{".":{},"k:{\"x\":1}":{}},`, 30_000), ",") + `}}`
	tests := map[string]struct {
		watch bool
		body  string
		want  error
	}{
		"a usual answer":              {body: `{"items":[{},{}]}`},
		"owned fields stay bytes":     {body: managed},
		"bytes without end":           {body: `{"x":"` + strings.Repeat("A", largest/perByte), want: errAnswerTooLarge},
		"a flood of empty structs":    {body: `{"items":[` + strings.Repeat("{},", largest/perStruct+1), want: errAnswerTooLarge},
		"structs after a false key":   {body: `{"f:x":[` + strings.Repeat("{},", largest/perStruct+1), want: errAnswerTooLarge},
		"braces in a string are text": {body: `{"x":"` + strings.Repeat(`{\"`, largest/perStruct+1) + `"}`},
		"events of a long watch":      {watch: true, body: strings.Repeat(`{"type":"ADDED","object":{"x":"`+strings.Repeat("A", 1000)+`"}}`+"\n", 20_000)},
		"one event without end":       {watch: true, body: `{"type":"ADDED","object":"` + strings.Repeat("A", largestEvent/perByte), want: errEventTooLarge},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told error
			b := newAnswers()
			m := &meter{ReadCloser: io.NopCloser(strings.NewReader(tc.body)), claim: b.claim(), watch: tc.watch, exceeded: func(err error) { told = err }}
			_, err := io.Copy(io.Discard, m)
			if !errors.Is(err, tc.want) || !errors.Is(told, tc.want) || (tc.want == nil && err != nil) {
				t.Errorf("error %v, told %v; want %v", err, told, tc.want)
			}
			if err := m.Close(); err != nil || b.used != 0 {
				t.Errorf("%d still used, %v", b.used, err)
			}
		})
	}
}

// hostile is the behavior of several servers, and how much they could send.
type hostile struct {
	watch bool // whether they answer watches of Nodes, or lists
	start string
	piece string // sent repeatedly
	stop  int64  // after that many bytes they send nothing
	sent  atomic.Int64
}

func (h *hostile) answer(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/api/v1/nodes" || r.URL.Query().Has("watch") != h.watch {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(w, h.start)
	piece := strings.Repeat(h.piece, 4096/len(h.piece))
	for mine := int64(0); err == nil; {
		var n int
		n, err = io.WriteString(w, piece)
		h.sent.Add(int64(n))
		if mine += int64(n); h.stop > 0 && mine > h.stop {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}
	}
	return true
}

// pages answers every page of a list with another one.
func (h *hostile) pages(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/api/v1/nodes" || r.URL.Query().Has("watch") {
		return false
	}
	list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: r.URL.Query().Get("continue") + "x"}}
	for i := range pageSize {
		n := node(fmt.Sprintf("n%d-%d", len(list.Continue), i), "", "1")
		n.Annotations = map[string]string{"a": strings.Repeat("A", 4<<10)}
		h.sent.Add(4 << 10)
		list.Items = append(list.Items, n)
	}
	answer(w, list)
	return true
}

func TestHostileServersTogetherAreBounded(t *testing.T) {
	const servers, scale = 12, 16 // the test has a sixteenth of the budgets, and so needs less memory
	tests := map[string]struct {
		hostile *hostile
		pages   bool
		want    []string // one of them in the health of each
		most    int64    // bytes that all of them together can send
		holds   int64    // of the budget, at least, while they send
	}{
		"lists without end": {
			hostile: &hostile{start: `{"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"`, piece: "A"},
			want:    []string{errAnswerTooLarge.Error()},
		},
		"lists that fall silent": {
			hostile: &hostile{start: `{"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"`, piece: "A", stop: 200 << 10},
			want:    []string{errTooSlow.Error(), errBusy.Error(), "context deadline exceeded"},
			holds:   underWay / scale / 2,
		},
		"lists of empty structs": {
			hostile: &hostile{start: `{"apiVersion":"v1","kind":"NodeList","items":[`, piece: "{},"},
			want:    []string{errAnswerTooLarge.Error()},
			most:    servers * (3*largest/scale/perStruct + 2*window),
		},
		"pages without end": {
			hostile: &hostile{}, pages: true,
			want: []string{errViewTooLarge.Error(), errFull.Error()},
		},
		"events without end": {
			hostile: &hostile{watch: true, start: `{"type":"ADDED","object":{"kind":"`, piece: "A"},
			want:    []string{errEventTooLarge.Error()},
			most:    servers * (largestEvent/scale/perByte + 2*window),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := map[string]*server{"good": startServer(t)}
				for i := range servers {
					s := startServer(t)
					if s.hostile = tc.hostile.answer; tc.pages {
						s.hostile = tc.hostile.pages
					}
					all[fmt.Sprintf("h%d.hostile", i)] = s
				}
				f := startFleet(t, all)
				for _, b := range []*budget{f.answers, f.views} {
					b.total, b.small, b.most, b.event = b.total/scale, b.small/scale, b.most/scale, b.event/scale
				}
				for name := range all {
					if name != "good" {
						f.reconcile(t, name)
					}
				}
				var held int64
				for range 20 {
					time.Sleep(time.Second)
					answers, views := f.answers.taken(), f.views.taken()
					if held = max(held, answers); answers > underWay/scale || views > kept/scale {
						t.Errorf("%d bytes under way, %d kept", answers, views)
					}
				}
				if held < tc.holds {
					t.Errorf("they never held more than %d bytes, want %d", held, tc.holds)
				}
				f.reconcile(t, "good")
				time.Sleep(time.Second)
				if _, err := f.Client(t.Context(), keyOf("good")); err != nil {
					t.Errorf("%v: %+v", err, f.Health(keyOf("good")))
				}
				for i := range servers {
					h := f.Health(keyOf(fmt.Sprintf("h%d.hostile", i)))
					if h.Connected || !slices.ContainsFunc(tc.want, func(want string) bool { return strings.Contains(text(h.Err), want) }) {
						t.Errorf("server %d: %+v, want one of %q", i, h, tc.want)
					}
				}
				if got := tc.hostile.sent.Load(); tc.most > 0 && got > tc.most {
					t.Errorf("%d bytes were sent, want %d at most", got, tc.most)
				}
			})
		})
	}
}

func TestLargeClusterIsListedInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		var asked []string
		s.hostile = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/api/v1/nodes" || r.URL.Query().Has("watch") {
				return false
			}
			q := r.URL.Query()
			asked = append(asked, q.Get("limit")+" "+q.Get("continue"))
			first, _ := strconv.Atoi(q.Get("continue"))
			list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
			for i := first; i < first+pageSize && i < 120; i++ {
				list.Items = append(list.Items, node(fmt.Sprintf("n%d", i), fmt.Sprintf("simulated://n%d", i), "1"))
			}
			if first+pageSize < 120 {
				list.Continue = strconv.Itoa(first + pageSize)
			}
			answer(w, list)
			return true
		}
		f := startFleet(t, map[string]*server{"demo": s})
		f.reconcile(t, "demo")
		synctest.Wait()
		c, err := f.Client(t.Context(), keyOf("demo"))
		if err != nil {
			t.Fatal(err)
		}
		var list corev1.NodeList
		if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 120 {
			t.Errorf("%d nodes, %v", len(list.Items), err)
		}
		if want := []string{"50 ", "50 50", "50 100"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
		if f.find(keyOf("demo")).connection().nodes.kept.current() == 0 || f.answers.taken() != 0 {
			t.Errorf("%d under way", f.answers.taken())
		}
	})
}
