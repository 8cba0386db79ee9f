// SPDX-License-Identifier: Apache-2.0

// Package sim lets the real controllers run an in-memory world to rest, in
// virtual time, and writes down what happens as a story that a reviewer reads.
//
// The management cluster is an API server in memory; every reconciler is called for
// every object, in a fixed order, until a round changes nothing. There are no
// informers and no queues, hence no races. Then time goes on to when the next
// object is due. Owners are garbage-collected as Kubernetes does; CRD validation
// and admission are not imitated: the server tests show those.
package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/access/payloads"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/schemas"
	"github.com/capstan-dev/capstan/internal/access/updates"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/features"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// maxRounds is how long a world may take to come to rest; a change rarely
// needs more than twenty rounds.
const maxRounds = 300

var errRestless = fmt.Errorf("the world did not come to rest in %d rounds", maxRounds)

// Options is what a world is made of. Clock is required.
type Options struct {
	Clock *Clock
	// Backends go by the same clock. They stay the caller's to close.
	Backends host.Backends
	// Objects were in another store, and are in this one from the start. So many
	// bootstrap tokens were made meanwhile; no two are the same.
	Objects []client.Object
	Tokens  int
	// StatusDebounce is how long a status that only informs may wait to be
	// written with the next; zero writes each at once.
	StatusDebounce time.Duration
	// Extension answers the calls of runtime extensions, whatever URL their
	// ExtensionConfigs have; by default none answers.
	Extension http.Handler
	// Updates are asked in place of extensions, if they are given.
	Updates updates.Hooks
	// Features are those that controllers look at; all of them run.
	Features features.Gates
	// Log receives what the controllers say; the zero value drops it.
	Log logr.Logger
}

// World is a management cluster with its controllers. It is not for several
// goroutines.
type World struct {
	Mgmt   client.WithWatch
	Clock  *Clock
	Tokens int // made so far

	store       *store
	clusters    *connections
	log         logr.Logger
	controllers []entry
	story       strings.Builder
}

// entry is one controller.
type entry struct {
	controllers.Controller
	kind schema.GroupVersionKind
	step controller.Stepped
}

// NewWorld makes a world in which all controllers run.
func NewWorld(o Options) (*World, error) {
	s, err := newStore(o.Clock, o.Objects)
	if err != nil {
		return nil, fmt.Errorf("make a store in memory: %w", err)
	}
	w := &World{
		Mgmt: s, Clock: o.Clock, Tokens: o.Tokens, store: s, log: o.Log,
		clusters: &connections{mgmt: s, handler: handlerOf(o.Backends), clock: o.Clock, open: map[client.ObjectKey]*connection{}},
	}
	asked, err := askExtensions(o)
	if err != nil {
		return nil, err
	}
	outside := controllers.Outside{
		Mgmt: s, Live: s, Providers: provider.New(s, nil),
		Classes: classes.New(s), Schemas: schemas.New(s, s),
		Workload: w.clusters, Etcd: &etcd.Dialer{Clock: o.Clock},
		Backends: o.Backends, Payloads: payloads.New(s, nil),
		Extensions: asked, Features: o.Features,
		Debounce: patch.NewStatusDebounce(o.StatusDebounce, o.Clock),
		Clock:    o.Clock, Recorder: func(string) events.EventRecorder { return w }, Name: s.name, Random: func() float64 { return 0.5 },
		NewToken: func() (bootstrapv1.BootstrapTokenString, error) {
			w.Tokens++
			return bootstrapv1.BootstrapTokenString{ID: fmt.Sprintf("%06d", w.Tokens), Secret: fmt.Sprintf("%016d", w.Tokens)}, nil
		},
	}
	for _, c := range controllers.All() {
		kind, err := apiutil.GVKForObject(c.Kind, s.Scheme())
		if err != nil {
			return nil, err
		}
		if !slices.Contains(s.kinds, kind) {
			continue // there is nothing of it here
		}
		w.controllers = append(w.controllers, entry{c, kind, c.Stepped(outside)})
	}
	return w, nil
}

// handlerOf returns what finds the API server of a simulated cluster by its address.
func handlerOf(backends host.Backends) func(string) http.Handler {
	if simulated, is := backends.Simulated.(interface{ Handler(string) http.Handler }); is {
		return simulated.Handler
	}
	return func(string) http.Handler { return nil }
}

// Objects are all that there are, but for definitions: another world can begin
// with them.
func (w *World) Objects(context.Context) ([]client.Object, error) {
	return w.store.all(w.store.kinds...), nil
}

// Requests counts the writes that were asked for so far, by verb and kind, as in
// "patch status of Machine".
func (w *World) Requests() map[string]int { return maps.Clone(w.store.sent) }

// Run lets every controller work until nothing changes any more, while time
// stands still. What fails then is an error.
func (w *World) Run(ctx context.Context) error {
	failing, _, err := w.rest(ctx)
	return errors.Join(err, failing)
}

// RunFor lets so much time pass. What fails meanwhile is tried again; what fails
// at the end is an error.
func (w *World) RunFor(ctx context.Context, d time.Duration) error {
	_, err := w.pass(ctx, d, func() bool { return false })
	return err
}

// Until lets time pass until something is so, which is looked at whenever the
// world is at rest. That it has not become so within the limit is an error.
func (w *World) Until(ctx context.Context, limit time.Duration, is func() bool) error {
	reached, err := w.pass(ctx, limit, is)
	if err == nil && !reached {
		err = fmt.Errorf("what is waited for has not come about in %s", limit)
	}
	return err
}

func (w *World) pass(ctx context.Context, d time.Duration, enough func() bool) (bool, error) {
	end := w.Clock.Now().Add(d)
	for {
		failing, next, err := w.rest(ctx)
		switch {
		case err != nil:
			return false, err
		case enough():
			return true, nil
		case next.IsZero() || next.After(end):
			w.Clock.SetTime(end)
			return false, failing
		}
		w.Clock.SetTime(next)
	}
}

// rest lets the world come to rest. It returns what still fails then, and when
// something is due next; zero if nothing is.
func (w *World) rest(ctx context.Context) (failing error, next time.Time, err error) {
	ctx = ctrl.LoggerInto(ctx, w.log)
	for range maxRounds {
		before := w.store.writes
		next, failing = w.round(ctx)
		if err := w.store.collect(ctx); err != nil {
			return nil, next, err
		}
		if w.store.writes == before {
			return failing, sooner(next, w.Clock.due()), nil
		}
	}
	return nil, next, errRestless
}

// round calls every controller once for each of its objects.
func (w *World) round(ctx context.Context) (next time.Time, failing error) {
	for _, c := range w.controllers {
		for _, obj := range w.store.server.sorted(c.kind, "") {
			key := client.ObjectKeyFromObject(obj)
			w.store.acts = c.Name
			after, err := c.step(ctx, key)
			if err != nil {
				failing = fmt.Errorf("controller %s, %s: %w", c.Name, key, err)
			}
			if after > 0 {
				next = sooner(next, w.Clock.Now().Add(after))
			}
		}
	}
	w.store.acts = ""
	return next, failing
}

// Tell adds a line to the story.
func (w *World) Tell(format string, args ...any) {
	fmt.Fprintf(&w.story, format+"\n", args...)
}

// Story is what was told: events, and what Tell added.
func (w *World) Story() string { return w.story.String() }

// Eventf implements events.EventRecorder: events are what the story tells.
func (w *World) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", regarding), "*v1beta2.")
	name := "?"
	if obj, ok := regarding.(client.Object); ok {
		name = obj.GetName()
	}
	w.store.count("create Event")
	w.Tell("%s %s: %s: %s", kind, name, reason, address.ReplaceAllString(fmt.Sprintf(note, args...), "ADDRESS"))
}

// address is where a simulated cluster answers; it depends on what else runs.
var address = regexp.MustCompile(`127\.[0-9.]+:[0-9]+`)
