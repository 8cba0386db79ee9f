// SPDX-License-Identifier: Apache-2.0

package podroutes

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// hostile is a connection at which what copies from it panics.
type hostile struct{ net.Conn }

func (hostile) Read([]byte) (int, error) { panic("no such connection") }

// TestConnectionThatPanicsEndsAlone: the process continues, the other side of the
// connection is closed, and the log has the panic with its stack, once.
func TestConnectionThatPanicsEndsAlone(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(ctx context.Context, r *Routes) (net.Conn, error){
		"to the API server": func(ctx context.Context, r *Routes) (net.Conn, error) {
			r.Serve = func(net.Conn) { panic("no such connection") }
			return r.Dial(ctx, "tcp", "10.96.0.1:443")
		},
		"between a Pod and the network": func(ctx context.Context, _ *Routes) (net.Conn, error) {
			near, far := net.Pipe()
			broken, _ := net.Pipe()
			go relay(ctx, far, hostile{broken})
			return near, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var log strings.Builder
			logger := funcr.New(func(_, args string) {
				mu.Lock()
				defer mu.Unlock()
				log.WriteString(args)
			}, funcr.Options{})
			conn, err := connect(logr.NewContext(t.Context(), logger), routes(t))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(conn); err != nil { // it would wait if the other side were open
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if got := log.String(); strings.Count(got, "Observed a panic") != 1 || !strings.Contains(got, "recovery_test.go") {
				t.Errorf("got log %q, want the panic once, with its stack", got)
			}
		})
	}
}
