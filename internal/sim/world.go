// SPDX-License-Identifier: Apache-2.0

// Package sim lets the real controllers run on cluster state in memory until steady
// state, in virtual time, and records what happens as a story that a reviewer
// reads.
//
// The management cluster is an API server in memory; every reconciler is called for
// every object, in a fixed order, until a round changes nothing. There are no
// informers and no queues, hence no races. Then time advances to when the next
// object is due. Owners are garbage-collected as Kubernetes does. Admission is an
// option, which stories leave out: the server tests show it.
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
	"sync"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/apply"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// maxRounds is how many rounds a World may take to reach steady state; a change
// rarely needs more than twenty.
const maxRounds = 300

var errRestless = fmt.Errorf("the controllers did not reach a steady state in %d rounds", maxRounds)

// Options define a World. Clock is required.
type Options struct {
	Clock *Clock
	// Backends use the same clock. The caller must close them.
	Backends localinfra.Backends
	// Objects were in another store, and are in this one from the start. So many
	// bootstrap tokens were created meanwhile; no two are the same.
	Objects []client.Object
	Tokens  int
	// StatusDebounce is how long a status that only informs may wait to be written
	// with the next; zero writes each immediately.
	StatusDebounce time.Duration
	// Extension answers the calls of runtime extensions, for any URL in their
	// ExtensionConfigs; by default none answers.
	Extension http.Handler
	// Calls replace Extension as the way to extensions, if they are given; the labels
	// of namespaces select which are called.
	Calls      extensions.Poster
	Namespaces func(ctx context.Context, name string) (map[string]string, error)
	// Updates are called in place of extensions, if they are given.
	Updates extensions.Hooks
	// Features are those that controllers check; all of them run.
	Features controllers.Gates
	// Log receives the logs of the controllers; the zero value drops them.
	Log logr.Logger

	// Definitions are those of kinds of other providers, of which Objects may have
	// some: unstructured, of the version that is marked as stored.
	Definitions []*apiextensionsv1.CustomResourceDefinition
	// Runs selects the controllers; nil selects all.
	Runs func(controllers.Controller) bool
	// Workload, Etcd and CertificateExpiry are what the controllers reach workload
	// clusters by. If Workload is nil, they reach those of Backends.
	Workload          func(mgmt client.Client) workload.Clusters
	Etcd              etcd.Connector
	CertificateExpiry func(context.Context, podforward.Target) (time.Time, error)
	// Reads, if given, collect what controllers read: a controller is called for an object
	// only if something has changed that it read the last time, or at the time that it
	// requested. What Workload, Etcd and Calls reach must be in it, and no definition
	// changes. Without it, every controller is called for every object in each round.
	Reads *Reads
	// Admit admits what controllers write; nil admits everything as it is. What users
	// write, and what Act writes, was admitted by another server or by none.
	Admit Admit
	// Act acts for what is outside, after each round of the controllers.
	Act func(context.Context, client.Client) error
}

// World is a management cluster with its controllers. It is not for several
// goroutines.
type World struct {
	Mgmt   client.WithWatch
	Clock  *Clock
	Tokens int // created so far

	store       *store
	clusters    *connections
	act         func(context.Context, client.Client) error
	reads       *Reads
	log         logr.Logger
	controllers []entry
	story       strings.Builder
}

// entry is one controller.
type entry struct {
	controllers.Controller
	kind schema.GroupVersionKind
	step controller.Stepped
	idle map[client.ObjectKey]*idle
	// refused are errors of objects for which a write was not admitted. They are
	// reconciled again when time has passed, as after a back-off.
	refused map[client.ObjectKey]refused
}

type refused struct {
	at  time.Time
	err error
}

// NewWorld creates a World in which all controllers run.
func NewWorld(o Options) (*World, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, fmt.Errorf("make a store in memory: %w", err)
	}
	w := &World{
		Mgmt: s, Clock: o.Clock, Tokens: o.Tokens, store: s, log: o.Log, act: o.Act, reads: o.Reads,
		clusters: &connections{mgmt: s, handler: handlerOf(o.Backends), clock: o.Clock, open: map[client.ObjectKey]*connection{}},
	}
	if o.Workload == nil {
		o.Workload = func(client.Client) workload.Clusters { return w.clusters }
		o.Etcd, o.CertificateExpiry = &etcd.Dialer{Clock: o.Clock}, podforward.ServingCertExpiry
	}
	asked, err := askExtensions(o)
	if err != nil {
		return nil, err
	}
	types := apply.NewSchemas(s, s)
	if o.Reads != nil && len(o.Definitions) == 0 {
		if types, err = installedSchemas(); err != nil {
			return nil, err
		}
	}
	outside := controllers.Outside{
		Deps:              deps.Deps{Mgmt: s, Live: s, Providers: provider.New(s, nil), Workload: o.Workload(s), Debounce: patch.NewStatusDebounce(o.StatusDebounce, o.Clock), Clock: o.Clock, Name: s.name},
		Classes:           classes.New(s),
		Schemas:           types,
		Etcd:              o.Etcd,
		CertificateExpiry: o.CertificateExpiry,
		Backends:          o.Backends,
		Payloads:          resourcesets.New(s, nil),
		Extensions:        asked,
		Features:          o.Features,
		Recorders:         func(string) events.EventRecorder { return w },
		Random:            func() float64 { return 0.5 },
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
		if !slices.Contains(s.kinds, kind) || o.Runs != nil && !o.Runs(c) {
			continue // nothing of its kind exists here, or it is not selected
		}
		w.controllers = append(w.controllers, entry{c, kind, c.Stepped(outside), map[client.ObjectKey]*idle{}, map[client.ObjectKey]refused{}})
	}
	return w, nil
}

// installedSchemas are the types of the installed kinds for worlds in which no
// definition changes.
var installedSchemas = sync.OnceValues(func() (*apply.Schemas, error) {
	s, err := newStore(Options{Clock: NewClock(time.Time{})})
	if err != nil {
		return nil, err
	}
	return apply.NewSchemas(s.server, s.server), nil
})

// handlerOf returns what finds the API server of a simulated cluster by its address.
func handlerOf(backends localinfra.Backends) func(string) http.Handler {
	if simulated, is := backends.Simulated.(interface{ Handler(string) http.Handler }); is {
		return simulated.Handler
	}
	return func(string) http.Handler { return nil }
}

// Objects are all that exist, except definitions: another World can start with
// them.
func (w *World) Objects(context.Context) ([]client.Object, error) {
	return w.store.all(w.store.kinds...), nil
}

// Writes counts the writes so far, including those that changed nothing.
func (w *World) Writes() int { return w.store.writes }

// Stored returns the objects of a kind without copying them: they must not be
// changed.
func (w *World) Stored(kind schema.GroupVersionKind) []client.Object {
	records := w.store.server.sorted(kind, "")
	all := make([]client.Object, len(records))
	for i, r := range records {
		all[i] = r.Object
	}
	return all
}

// Kinds are those of Objects.
func (w *World) Kinds() []schema.GroupVersionKind { return w.store.kinds }

// Put stores an object as another API server stores it, with its UID and
// managedFields, in place of the one of that name if there is one.
func (w *World) Put(obj client.Object) error { return w.store.server.replace(obj) }

// Requests counts the writes that were requested so far, by verb and kind, as in
// "patch status of Machine".
func (w *World) Requests() map[string]int { return maps.Clone(w.store.sent) }

// Run lets every controller work until nothing changes any longer, while time
// stands still. What fails then is an error.
func (w *World) Run(ctx context.Context) error {
	failing, _, err := w.rest(ctx)
	return errors.Join(err, failing)
}

// RunFor lets so much time pass. What fails meanwhile is retried; what fails at the
// end is an error.
func (w *World) RunFor(ctx context.Context, d time.Duration) error {
	_, err := w.Pass(ctx, d, func() bool { return false })
	return err
}

// Until lets time pass until is returns true; it is called whenever steady state is
// reached. It returns an error if that does not happen within the limit.
func (w *World) Until(ctx context.Context, limit time.Duration, is func() bool) error {
	reached, err := w.Pass(ctx, limit, is)
	if err == nil && !reached {
		err = fmt.Errorf("what is waited for has not come about in %s", limit)
	}
	return err
}

// Pass lets time pass until enough returns true, which is called whenever steady state
// is reached, but no longer than d. It reports which it was; the error is what fails
// at the end.
func (w *World) Pass(ctx context.Context, d time.Duration, enough func() bool) (bool, error) {
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

// rest runs rounds until steady state. It returns what still fails then, and when
// something is due next; zero if nothing is.
func (w *World) rest(ctx context.Context) (failing error, next time.Time, err error) {
	ctx = ctrl.LoggerInto(ctx, w.log)
	for range maxRounds {
		before := w.store.writes
		next, failing = w.round(ctx)
		if w.act != nil {
			err = w.act(ctx, w.store)
		}
		if err := errors.Join(err, ctx.Err(), w.store.collect(ctx)); err != nil {
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
			due, err := w.step(ctx, c, client.ObjectKeyFromObject(obj))
			if err != nil {
				failing = fmt.Errorf("controller %s, %s: %w", c.Name, client.ObjectKeyFromObject(obj), err)
			}
			next = sooner(next, due)
		}
	}
	w.store.acts = ""
	return next, failing
}

// step calls a controller for an object, unless it would read what it read the last
// time and write nothing. It returns when the object is due again; zero if it is not.
func (w *World) step(ctx context.Context, c entry, key client.ObjectKey) (due time.Time, err error) {
	if last := c.idle[key]; last.holds(w.Clock.Now()) {
		return last.due, nil
	}
	if last, was := c.refused[key]; was && last.at.Equal(w.Clock.Now()) {
		return time.Time{}, last.err
	}
	w.store.acts = c.Name
	if w.reads != nil {
		w.reads.start(c.Name == "cluster")
	}
	before, refusals := w.store.writes, w.store.server.refusals
	after, err := c.step(ctx, key)
	if err != nil && w.store.server.refusals > refusals {
		c.refused[key] = refused{w.Clock.Now(), err}
	}
	if after > 0 {
		due = w.Clock.Now().Add(after)
	}
	if w.reads == nil {
		return due, err
	}
	delete(c.idle, key)
	if err == nil && w.store.writes == before {
		c.idle[key] = &idle{w.reads.all, due}
	}
	return due, err
}

// Record adds a line to the story.
func (w *World) Record(format string, args ...any) {
	fmt.Fprintf(&w.story, format+"\n", args...)
}

// Story is the recorded text: events, and what Record added.
func (w *World) Story() string { return w.story.String() }

// Eventf implements events.EventRecorder: events are the lines of the story.
func (w *World) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", regarding), "*v1beta2.")
	name := "?"
	if obj, ok := regarding.(client.Object); ok {
		name = obj.GetName()
	}
	w.store.count("create Event")
	w.Record("%s %s: %s: %s", kind, name, reason, address.ReplaceAllString(fmt.Sprintf(note, args...), "ADDRESS"))
}

// address is where a simulated cluster answers; it depends on what else runs.
var address = regexp.MustCompile(`127\.[0-9.]+:[0-9]+`)
