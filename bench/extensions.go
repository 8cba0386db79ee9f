// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/extension/server"
)

// lookAgain is the polling interval of the bench.
const lookAgain = 50 * time.Millisecond

// manyExtensions answers for all extensions of a scenario, each below its own
// path: to a plane they are as many servers.
type manyExtensions struct {
	http *httptest.Server
	ca   []byte

	mu    sync.Mutex          // guards asked
	asked map[string]struct{} // the extensions that were called since the last forget
}

// startExtensions serves extensions. Those whose number is below hanging take
// requests and never answer.
func startExtensions(hanging int) (*manyExtensions, error) {
	one, err := server.New(server.Options{})
	if err == nil {
		err = server.Handle(one, hooksv1.BeforeClusterCreate, func(context.Context, *hooksv1.BeforeClusterCreateRequest, *hooksv1.BeforeClusterCreateResponse) error {
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	m := &manyExtensions{asked: map[string]struct{}{}}
	m.http = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		m.mu.Lock()
		m.asked[name] = struct{}{}
		m.mu.Unlock()
		var number int
		if _, err := fmt.Sscanf(name, "ext-%d", &number); err == nil && number < hanging {
			<-r.Context().Done()
			return
		}
		http.StripPrefix("/"+name, one).ServeHTTP(w, r)
	}))
	m.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.http.Certificate().Raw})
	return m, nil
}

func (m *manyExtensions) config(number int) *runtimev1.ExtensionConfig {
	name := fmt.Sprintf("ext-%d", number)
	return &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: m.http.URL + "/" + name, CABundle: m.ca}},
	}
}

func (m *manyExtensions) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.asked)
}

// allAsked waits until n of them were asked.
func (m *manyExtensions) allAsked(ctx context.Context, n int) error {
	return until(ctx, func() (bool, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.asked) >= n, nil
	})
}

// register measures from the first ExtensionConfig to all of them discovered,
// but those that hang.
func (b *bench) register(ctx context.Context, r *Result) (err error) {
	n := b.scenario.Extensions
	if n == 0 {
		return nil
	}
	if b.extensions, err = startExtensions(b.scenario.HangingExtensions); err != nil {
		return err
	}
	begin := time.Now()
	for number := range n {
		if err := b.mgmt.Create(ctx, b.extensions.config(number)); err != nil {
			return err
		}
	}
	r.Extensions.CreateSeconds = round(time.Since(begin).Seconds())
	err = until(ctx, func() (bool, error) {
		var all runtimev1.ExtensionConfigList
		if err := b.mgmt.List(ctx, &all); err != nil {
			return false, err
		}
		discovered := 0
		for _, c := range all.Items {
			if meta.IsStatusConditionTrue(c.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition) {
				discovered++
			}
		}
		return discovered == n-b.scenario.HangingExtensions, nil
	})
	r.Extensions.DiscoveredSeconds = round(time.Since(begin).Seconds())
	return err
}

// warmUp measures from the start of a plane to all extensions asked again.
func (b *bench) warmUp(ctx context.Context, begin time.Time, r *Result) error {
	if b.extensions == nil {
		return nil
	}
	err := b.extensions.allAsked(ctx, b.scenario.Extensions)
	r.Extensions.WarmUpSeconds = round(time.Since(begin).Seconds())
	return err
}

// until waits for done.
func until(ctx context.Context, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := planes.Pause(ctx, lookAgain); err != nil {
			return err
		}
	}
}
