// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// TestSteadyClusterIsSmall measures alone, so it is not parallel.
func TestSteadyClusterIsSmall(t *testing.T) {
	const clusters, limit = 40, 400 << 10
	dir, listeners := t.TempDir(), apiserver.NewListeners(discard())
	t.Cleanup(func() { _ = listeners.Close() })
	open := func(i int) *cluster {
		c := serve(t, listeners, func(o *apiserver.Options) { o.Journal = store.FileAt(filepath.Join(dir, strconv.Itoa(i)), discard()) })
		fill(t, c, 3)
		call(t, c.admin(t), http.StatusCreated, "POST", definitionsPath, asYAML, widgets)
		call(t, c.admin(t), http.StatusCreated, "POST", widgetsPath, "", widget("a", `{"size":"small"}`))
		return c
	}
	kept := []*cluster{open(0)} // what all share is created for the first
	before := used()
	for i := range clusters {
		kept = append(kept, open(i+1))
	}
	each := (used().heap - before.heap) / clusters
	for _, c := range kept {
		c.Close()
	}
	runtime.KeepAlive(kept)
	if t.Logf("%d KiB each", each>>10); each > limit {
		t.Errorf("a cluster takes %d KiB, limit %d", each>>10, limit>>10)
	}
}

// mute accepts a response, and sends its code when it starts.
type mute struct {
	header http.Header
	code   chan<- int
	once   sync.Once
}

func (m *mute) Header() http.Header { return m.header }

func (m *mute) Write(b []byte) (int, error) { return len(b), nil }

func (m *mute) WriteHeader(code int) { m.once.Do(func() { m.code <- code }) }

func (m *mute) Flush() {}

func TestTenThousandWatchersAreBounded(t *testing.T) {
	const watchers = 10_000
	c := start(t)
	for _, obj := range []apiserver.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
			Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true")},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "watchers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers"}},
		},
	} {
		if err := c.Store().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	before := used()
	codes, found := make(chan int), map[int]int{}
	var running sync.WaitGroup
	for range watchers {
		running.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/nodes?watch=true", http.NoBody)
			if err != nil {
				codes <- 0
				return
			}
			r.Header.Set("Authorization", "Bearer abcdef.0123456789abcdef")
			c.ServeHTTP(&mute{header: http.Header{}, code: codes}, r)
		})
		found[<-codes]++
	}
	grown := (used().heap - before.heap) >> 20
	c.Close()
	running.Wait()
	if found[http.StatusOK] == 0 || found[http.StatusTooManyRequests] == 0 || found[http.StatusOK]+found[http.StatusTooManyRequests] != watchers {
		t.Errorf("answers %v, want that some are served and the rest are sent away", found)
	}
	if grown > 128 {
		t.Errorf("%d MiB for those that are served", grown)
	}
}

func TestWhatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	admin := start(t).admin(t)
	large := func(size int) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"large"},"data":{"x":"` + strings.Repeat("x", size) + `"}}`
	}
	call(t, admin, http.StatusRequestEntityTooLarge, "POST", configMapsPath, "", large(3<<20))
	call(t, admin, http.StatusUnprocessableEntity, "POST", configMapsPath, "", large(1<<20+1))
	call(t, admin, http.StatusCreated, "POST", configMapsPath, "", large(1<<20-1))
	notes := strings.Replace(large(1), `"name"`, `"annotations":{"a":"`+strings.Repeat("x", 256<<10)+`"},"name"`, 1)
	call(t, admin, http.StatusUnprocessableEntity, "POST", configMapsPath, "", strings.Replace(notes, "large", "noted", 1))
}

func TestServerSurvivesGarbageOnPort(t *testing.T) {
	t.Parallel()
	c := start(t)
	address := strings.TrimPrefix(c.host, "https://")
	for _, garbage := range []string{"\x00\x01\x02", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", strings.Repeat("A", 64<<10)} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(garbage)) // it may be cut short
		_ = conn.Close()
	}
	admin := c.admin(t)
	for _, body := range [][]byte{bytes.Repeat([]byte{0xff}, 1000), []byte("k8s\x00\xff\xff\xff\xff"), []byte(strings.Repeat("[", 100_000)), []byte("&a [*a,*a]")} {
		for _, contentType := range []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", asMerge, asApply} {
			resp, _ := send(t, admin, http.MethodPost, configMapsPath, contentType, "", string(body))
			if resp.StatusCode < 400 || resp.StatusCode >= 500 {
				t.Errorf("%q as %s: %s", body[:8], contentType, resp.Status)
			}
		}
	}
	if got := answers(t, admin, "/healthz"); got != http.StatusOK {
		t.Errorf("afterwards %d", got)
	}
}
