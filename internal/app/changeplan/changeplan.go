// SPDX-License-Identifier: Apache-2.0

// Package changeplan finds out what a change does to each Machine before it is made.
//
// The change is sent as a dry run. Then the real controllers run on a copy of each part
// of the management cluster that the change reaches, in virtual time, until nothing
// changes any longer. The copy reaches nothing outside: package standin answers.
//
// Each part runs without the change first. If it changes then, what happens with the
// change cannot be known, and the plan reports that.
package changeplan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/shards"
	"github.com/capstan-dev/capstan/internal/app/changeplan/standin"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Defaults of Options.
const (
	DefaultHorizon  = 2 * time.Hour
	DefaultManager  = "kubectl"
	DefaultParallel = 2
)

// MaxWrites is the number of objects that one change writes at most.
const MaxWrites = 5000

// Options configure Make. Mgmt is required.
type Options struct {
	// Mgmt reads and writes the management cluster, past any cache, with the scheme of
	// the controllers.
	Mgmt client.Client
	// Manager is the field manager of the change; DefaultManager if empty.
	Manager string
	// Horizon is the virtual time after which a plan ends; DefaultHorizon if zero.
	Horizon time.Duration
	// Now is the time at first; the present if zero.
	Now time.Time
	// Program is the version of the program.
	Program string
	// Workload reads a workload cluster by its kubeconfig; nil reads none. An error is
	// reported as an assumption.
	Workload func(ctx context.Context, kubeconfig []byte) (*standin.Snapshot, error)
	// Extensions call those whose answers decide; nil calls none.
	Extensions extensions.Poster
	// Parallel is how many Clusters are planned at once; DefaultParallel if zero.
	Parallel int
	// Progress is called with each Cluster that is done; nil is called for none.
	Progress func(done, all int, cluster planv1.Cluster)

	// exhaustive calls every controller for every object in each round. The plan is the
	// same.
	exhaustive bool
}

// Make makes the plan of a change. The error is that of a change which the management
// cluster refuses, or of a management cluster that cannot be read.
func Make(ctx context.Context, o Options, change []Write) (*planv1.Plan, error) {
	m, err := newMaker(ctx, o, change)
	if err != nil {
		return nil, err
	}
	return m.make(ctx)
}

// newMaker sends the change as a dry run.
func newMaker(ctx context.Context, o Options, change []Write) (*maker, error) {
	o.Manager, o.Horizon = cmp.Or(o.Manager, DefaultManager), cmp.Or(o.Horizon, DefaultHorizon)
	o.Parallel = cmp.Or(o.Parallel, DefaultParallel)
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if len(change) > MaxWrites {
		return nil, fmt.Errorf("the change has %d objects, and %d are the most that a plan takes: make several plans", len(change), MaxWrites)
	}
	m := &maker{Options: o, reader: shards.Reader{Mgmt: o.Mgmt}, assumed: map[string][]string{}}
	applied := map[string]bool{}
	for _, w := range change {
		of := fmt.Sprintf("%s %s", w.Object.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(w.Object))
		if applied[of] {
			return nil, fmt.Errorf("the change has %s twice: join the two documents, because the dry run of one does not see the other", of)
		}
		applied[of] = w.Patch == types.ApplyPatchType
		one, err := rehearse(ctx, o.Mgmt, w, o.Manager)
		if err != nil {
			return nil, err
		}
		m.change = append(m.change, one)
	}
	return m, nil
}

func (m *maker) make(ctx context.Context) (*planv1.Plan, error) {
	p := &planv1.Plan{
		TypeMeta: metav1.TypeMeta{APIVersion: planv1.APIVersion, Kind: planv1.Kind},
		Made:     metav1.NewTime(m.Now), Program: m.Program, Change: []planv1.Object{}, Clusters: []planv1.Cluster{},
	}
	for _, w := range m.change {
		p.Change = append(p.Change, w.name)
	}
	reached, err := m.reached(ctx)
	if err != nil {
		return nil, err
	}
	if p.Clusters, err = m.each(ctx, reached); err != nil {
		return nil, err
	}
	Summarize(p)
	p.Assumptions = m.assumptions()
	return p, nil
}

// maker makes one plan.
type maker struct {
	Options
	reader shards.Reader
	change []*written

	mu      sync.Mutex                   // guards the rest
	assumed map[string][]string          // Clusters by what is assumed about them
	digests map[string]map[string]string // of what the plan is made from, by Cluster; nil if they are not needed
	done    int
}

// digest keeps the digests of what the plan of a Cluster is made from.
func (m *maker) digest(s *shards.Shard) error {
	if m.digests == nil {
		return nil
	}
	all, err := digest(m.Mgmt.Scheme(), s.Objects)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.digests[s.Cluster.String()] = all
	return err
}

func (m *maker) assume(cluster client.ObjectKey, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.assumed[text] = append(m.assumed[text], cluster.String())
}

// maxNamed is the number of Clusters that one assumption names.
const maxNamed = 5

// assumptions are sentences, each with the Clusters that it is about.
func (m *maker) assumptions() (all []string) {
	for text, clusters := range m.assumed {
		slices.Sort(clusters)
		clusters = slices.Compact(clusters)
		of := strings.Join(clusters[:min(len(clusters), maxNamed)], ", ")
		if more := len(clusters) - maxNamed; more > 0 {
			of += fmt.Sprintf(" and %d more", more)
		}
		all = append(all, text+" ("+of+")")
	}
	slices.Sort(all)
	return all
}

// reached are the Clusters that the change reaches, by namespace and name.
func (m *maker) reached(ctx context.Context) ([]client.ObjectKey, error) {
	found, finder := map[client.ObjectKey]bool{}, shards.NewFinder(m.Mgmt)
	for _, w := range m.change {
		keys, err := finder.Reached(ctx, w.after)
		if set, is := w.before.(*addonsv1.ClusterResourceSet); is && err == nil { // it may have selected others
			former, failed := finder.Reached(ctx, set)
			keys, err = append(keys, former...), failed
		}
		if apierrors.IsForbidden(err) && (w.name.Kind == "ConfigMap" || w.name.Kind == "Secret") {
			m.assume(client.ObjectKeyFromObject(w.after), fmt.Sprintf("ClusterResourceSets may not be read: to which Clusters this %s is applied is not predicted", w.name.Kind))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the Clusters that %s %s reaches: %w", w.name.Kind, w.name.Name, err)
		}
		for _, key := range keys {
			found[key] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) }), nil
}

// each makes the plans of Clusters, several at once. Their order does not matter:
// each has a copy of its own.
func (m *maker) each(ctx context.Context, keys []client.ObjectKey) ([]planv1.Cluster, error) {
	plans, errs := make([]planv1.Cluster, len(keys)), make([]error, len(keys))
	var wg sync.WaitGroup
	slots := make(chan struct{}, m.Parallel)
	for i, key := range keys {
		slots <- struct{}{}
		wg.Go(recovery.Func(ctx, func() {
			defer func() { <-slots }()
			errs[i] = recovery.Call(ctx, func() (err error) {
				plans[i], err = m.cluster(ctx, key)
				return err
			})
			if errs[i] == nil {
				m.report(len(keys), plans[i])
			}
		}))
	}
	wg.Wait()
	return plans, errors.Join(append(errs, ctx.Err())...)
}

func (m *maker) report(all int, c planv1.Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	if m.Progress != nil {
		m.Progress(m.done, all, c)
	}
}

// Summarize counts the Machines of a plan by action.
func Summarize(p *planv1.Plan) {
	p.Summary = planv1.Summary{}
	s := &p.Summary
	of := map[planv1.Action]*int{
		planv1.Kept: &s.Kept, planv1.Changed: &s.Changed, planv1.Replaced: &s.Replaced,
		planv1.Deleted: &s.Deleted, planv1.Created: &s.Created, planv1.Transient: &s.Transient,
	}
	for _, c := range p.Clusters {
		if c.NotPredicted != nil {
			s.NotPredicted += max(1, len(c.Machines))
			continue
		}
		unknown := 0
		for _, m := range c.Machines {
			n := of[m.Action]
			if n == nil { // of a pool that is not predicted, or of another version
				n = &unknown
			}
			*n++
		}
		if unknown == 0 && slices.ContainsFunc(c.Pools, func(p planv1.Pool) bool { return p.NotPredicted != "" }) {
			unknown = 1 // it has no Machines
		}
		s.NotPredicted += unknown
	}
}
