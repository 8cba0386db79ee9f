// SPDX-License-Identifier: Apache-2.0

package planes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"sync"
)

// profileSeconds is how long one profile takes. Those of a plane are sequential, since
// the duration of a move is not known in advance; go tool pprof adds them up. The last
// one, which the end of the move interrupts, is lost.
const profileSeconds = 5

// Profiler writes CPU profiles of planes and of the bench itself, which is the client
// of a move, to a directory. The zero value writes none.
type Profiler struct{ Dir string }

// Flags returns flags with which a plane serves its profiles at a free address.
func (p Profiler) Flags() (address string, flags []string, err error) {
	if p.Dir == "" {
		return "", nil, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("find an address for profiles: %w", err)
	}
	address = l.Addr().String()
	return address, []string{"--pprof-address=" + address}, l.Close()
}

// During takes profiles of planes, by their names in files, until the returned function
// is called.
func (p Profiler) During(ctx context.Context, planes map[string]string) (stop func() error, err error) {
	if p.Dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	own, err := os.Create(filepath.Join(p.Dir, "client.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(own); err != nil {
		return nil, errors.Join(err, own.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, len(planes))
	for n, name := range slices.Sorted(maps.Keys(planes)) {
		running.Go(func() { errs[n] = p.series(ctx, name, planes[name]) })
	}
	return func() error {
		cancel()
		running.Wait()
		pprof.StopCPUProfile()
		return errors.Join(append(errs, own.Close())...)
	}, nil
}

// series takes profiles of a plane in sequence.
func (p Profiler) series(ctx context.Context, name, address string) error {
	for n := 1; ctx.Err() == nil; n++ {
		profile, err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, profileSeconds))
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(p.Dir, fmt.Sprintf("%s-%02d.pprof", name, n)), profile, 0o644)
		}
		if err != nil {
			return fmt.Errorf("profile %s: %w", name, err)
		}
	}
	return nil
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
