// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
)

// Options define a run.
type Options struct {
	Server    Server
	Webhooks  bool // the server has webhooks for all kinds but the invented one
	Namespace string
	Owner     map[string]any // an owner reference to an object that exists
	Seed      uint64
	Steps     int
}

const (
	// An object exists for so many steps: long enough for several managers to own
	// parts of it.
	stepsOfALife = 40
	// A random intent may be refused; after so many none of the kind is accepted.
	attempts = 20
)

// Run tests objects one after the other, half of them of the invented kind.
func Run(ctx context.Context, o Options) (*Report, error) {
	all, err := subjects(o.Owner)
	if err != nil {
		return nil, err
	}
	report := newReport()
	for n := 0; report.Steps < o.Steps; n++ {
		r := rand.New(rand.NewPCG(o.Seed, uint64(n)))
		sub, webhooks := all[0], false
		if r.IntN(2) == 0 {
			sub, webhooks = all[1+r.IntN(len(all)-1)], o.Webhooks
		}
		l := &trial{server: o.Server, sub: sub, r: r, report: report, namespace: o.Namespace, webhooks: webhooks, name: fmt.Sprintf("d%d-%d", o.Seed%100000, n)}
		if err := l.live(ctx, o.Steps); err != nil {
			return report, fmt.Errorf("%s %s: %w", sub.kind, l.name, err)
		}
	}
	return report, nil
}

// trial is one object from creation to deletion.
type trial struct {
	server          Server
	sub             subject
	r               *rand.Rand
	report          *Report
	webhooks        bool
	namespace, name string

	wanted  map[string]any // the intent applied last, without a name
	seen    map[string]any // the object as the last answer had it, or nil ...
	at      int            // ... in this version
	settled *ssadiff.Settled
}

func (l *trial) live(ctx context.Context, steps int) error {
	for n := 0; l.wanted == nil; n++ {
		wanted := l.sub.source.make(l.r)
		body := l.stamp(0, wanted)
		body["metadata"].(map[string]any)["resourceVersion"] = "1" // creates, or is refused
		answer, code, err := l.send(ctx, 0, Request{Method: http.MethodPatch, Type: asApply, Query: "force=true&fieldManager=" + Manager, Body: body})
		switch {
		case err != nil:
			return err
		case code == http.StatusOK || code == http.StatusCreated:
			l.wanted = wanted
		case n == attempts:
			return fmt.Errorf("cannot be made: %v", answer["message"])
		}
	}
	for n := 0; n < stepsOfALife && l.report.Steps < steps; n++ {
		if err := l.step(ctx); err != nil {
			return err
		}
	}
	_, _, err := l.send(ctx, 0, Request{Method: http.MethodPatch, Type: asMerge, Body: decode(`{"metadata":{"finalizers":null}}`)})
	if err != nil {
		return err
	}
	_, _, err = l.send(ctx, 0, Request{Method: http.MethodDelete, Type: asJSON})
	return err
}

// stamp completes an object to one that can be sent.
func (l *trial) stamp(version int, object map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(object)
	gvk := l.sub.types[version].GVK()
	out["apiVersion"], out["kind"] = gvk.GroupVersion().String(), gvk.Kind
	meta, _ := out["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		out["metadata"] = meta
	}
	meta["name"], meta["namespace"] = l.name, l.namespace
	return out
}

func (l *trial) send(ctx context.Context, version int, r Request) (map[string]any, int, error) {
	gv := l.sub.types[version].GVK().GroupVersion()
	r.Path = fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s/%s%s", gv.Group, gv.Version, l.namespace, l.sub.plural, l.name, r.Path)
	return l.server.Do(ctx, r)
}

// get is the object as it is now; the last answer will do if it has the version.
func (l *trial) get(ctx context.Context, version int) (map[string]any, error) {
	if l.seen != nil && l.at == version {
		return l.seen, nil
	}
	live, code, err := l.send(ctx, version, Request{Method: http.MethodGet, Type: asJSON})
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("cannot be read: %d, %v", code, live["message"])
	}
	l.seen, l.at = live, version
	return live, err
}
