// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/definition"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
	"github.com/capstan-dev/capstan/contract"
)

// check is one sentence of the contract of a role.
type check struct {
	conformance.Check
	remedy string

	// vital means that after a failure no other check of the kind can be run.
	vital bool

	// live means that it needs an existing object.
	live bool

	// test returns nil, the problem, or conformance.Skip. Checks are run sequentially,
	// and each continues in the state that the previous ones left.
	test func(ctx context.Context, s *subject) error
}

// role is the role of a kind in Cluster API.
type role struct {
	name     string
	page     string // of docs/contract
	of       func(Config) *Subject
	suffix   string               // of the names of its kinds
	promises []definition.Promise // of its fields
	optional bool                 // its template is

	// done is the field that reports that an object has reached its goal.
	done func(version string) (contract.Field[bool], error)

	// either, if set, reports it with the fields of any version of the contract.
	either func(obj *unstructured.Unstructured) (bool, error)

	// own creates the owner of the main object, and disown deletes it.
	own, disown func(ctx context.Context, s *subject) error

	checks func(r *role) []check
}

func roles() []*role {
	return []*role{infraCluster(), infraMachine(), bootstrapConfig(), controlPlane(), infraMachinePool()}
}

func roleNames() string {
	var names []string
	for _, r := range roles() {
		names = append(names, r.name)
	}
	return strings.Join(names, ", ")
}

// Checks lists the checks of a role, such as InfraCluster, in the order in which they are
// run; nil if the role is unknown.
func Checks(name string) []conformance.Check {
	var out []conformance.Check
	for _, r := range roles() {
		if r.name != name {
			continue
		}
		for _, c := range r.checks(r) {
			out = append(out, c.Check)
		}
	}
	return out
}

// Roles lists the roles that have checks, by the names of their pages in docs/contract.
func Roles() map[string]string {
	pages := map[string]string{}
	for _, r := range roles() {
		pages[r.name] = r.page
	}
	return pages
}

// subject is one kind of the provider in one role.
type subject struct {
	*objectchecks.Object
	role     *role
	config   Config
	kind     definition.Kind
	template *unstructured.Unstructured

	made *unstructured.Unstructured // the template, if it was created

	// problem, once set, is the reason why no further check can be run.
	problem string
}

// newSubject builds a subject of a kind, and of an example if the config has one.
func newSubject(c Config, r *role, kind definition.Kind, of *Subject) *subject {
	s := &subject{role: r, config: c, kind: kind}
	s.Object = &objectchecks.Object{
		Main: thing{GroupKind: kind.GroupKind, Name: "conformance"}, Cluster: clusterKey,
		Field:  func() (contract.Field[bool], error) { return r.done(s.kind.Contract) },
		Either: r.either,
		Own:    func(ctx context.Context) error { return r.own(ctx, s) },
		Disown: func(ctx context.Context) error { return r.disown(ctx, s) },
	}
	if of != nil {
		s.Example, s.template = of.Example, of.Template
	}
	return s
}

// Examine checks a provider. It ends early when ctx does; checks that were not run are
// reported as skipped then. All created objects are deleted when it returns.
func Examine(ctx context.Context, c Config) conformance.Report {
	report := conformance.Report{Results: []conformance.Result{}}
	c, err := c.complete()
	if err == nil {
		report.URL = strings.Join(c.Files, ",")
		if c.Mgmt != nil {
			report.URL = c.Mgmt.Host
		}
		err = examine(ctx, c, func(r conformance.Result) {
			report.Add(r)
			c.Progress(r)
		})
	}
	if err != nil {
		report.Problem = conformance.OneLine(err)
	}
	return report
}

// open reads the definitions, and connects to the management cluster if the config has
// one.
func open(ctx context.Context, c Config) (src *definition.Source, mgmt client.WithWatch, err error) {
	if c.Mgmt != nil {
		if mgmt, err = c.connect(c.Mgmt); err != nil {
			return nil, nil, err
		}
	}
	if len(c.Files) > 0 {
		src, err = definition.Read(c.Files)
	} else {
		src, err = definition.List(ctx, mgmt)
	}
	return src, mgmt, err
}

func examine(ctx context.Context, c Config, report func(conformance.Result)) error {
	src, mgmt, err := open(ctx, c)
	if err != nil {
		return err
	}
	for _, r := range roles() {
		if len(c.Roles) > 0 && !slices.Contains(c.Roles, r.name) {
			continue
		}
		if err := examineRole(ctx, subjectsOf(c, r, src), mgmt, report); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the run was ended: %w", context.Cause(ctx))
		}
	}
	return nil
}

// subjectsOf are the kinds that the provider has for a role.
func subjectsOf(c Config, r *role, src *definition.Source) (all []*subject) {
	s := r.of(c)
	if s == nil {
		if len(c.Files) > 0 && !configured(c) {
			for _, kind := range src.Named(r.suffix, !r.optional) {
				all = append(all, newSubject(c, r, definition.Kind{GroupKind: kind, Source: src}, nil))
			}
		}
		return all
	}
	if s.Example != nil {
		all = append(all, newSubject(c, r, definition.Kind{GroupKind: s.Example.GroupVersionKind().GroupKind(), Source: src}, s))
	}
	for _, kind := range s.Kinds {
		all = append(all, newSubject(c, r, definition.Kind{GroupKind: schema.GroupKind(kind), Source: src}, nil))
	}
	return all
}

// configured reports whether the config names kinds of the provider.
func configured(c Config) bool {
	return slices.ContainsFunc(roles(), func(r *role) bool { return r.of(c) != nil })
}

// examineRole runs the checks of a role for each kind in turn.
func examineRole(ctx context.Context, subjects []*subject, mgmt client.WithWatch, report func(conformance.Result)) (err error) {
	if len(subjects) == 0 {
		return nil
	}
	defer func() {
		for _, s := range subjects {
			if s.World != nil {
				err = errors.Join(err, s.World.End(ctx))
			}
		}
	}()
	for _, s := range subjects {
		if s.Example == nil || s.kind.There() != nil { // a check reports it
			continue
		}
		if s.World, err = s.newWorld(ctx, mgmt); err != nil {
			return err
		}
	}
	for _, c := range subjects[0].role.checks(subjects[0].role) {
		for _, s := range subjects {
			report(s.result(ctx, c))
			if s.Fault != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: %w", s.kind.Kind, s.Fault)
			}
		}
	}
	return nil
}

// newWorld creates a namespace for the subject, with the objects of the config in it.
func (s *subject) newWorld(ctx context.Context, mgmt client.WithWatch) (*testnamespace.World, error) {
	var kinds []schema.GroupVersionKind
	for _, r := range roles() {
		if other := r.of(s.config); other != nil && other.Example != nil {
			kinds = append(kinds, other.Example.GroupVersionKind())
		}
	}
	w, err := testnamespace.New(ctx, mgmt, s.config.limits(), kinds)
	if err == nil {
		w.Labels = map[string]string{testnamespace.Kept: testnamespace.BySuite}
		if s.config.WatchFilter != "" {
			w.Labels[clusterv1.WatchLabel] = s.config.WatchFilter
		}
	}
	for _, obj := range s.config.Objects {
		if err != nil {
			break
		}
		_, err = w.Make(ctx, obj, obj.GetName())
	}
	return w, err
}

func (s *subject) result(ctx context.Context, c check) conformance.Result {
	start := time.Now()
	err := s.try(ctx, c)
	if s.World != nil && s.World.Fault() != nil {
		err = s.Broken(s.World.Fault())
	}
	if ctx.Err() != nil {
		err = conformance.Skip("the run was ended: %w", context.Cause(ctx))
	}
	r := c.Evaluate(err, c.remedy)
	r.Kind, r.Duration = s.kind.Kind, metav1.Duration{Duration: time.Since(start)}
	if r.Outcome == conformance.Failed && c.vital {
		s.problem = "it failed before: " + c.Name
	}
	return r
}

func (s *subject) try(ctx context.Context, c check) error {
	switch {
	case ctx.Err() != nil:
		return nil // result reports it
	case s.problem != "":
		return conformance.Skip("%s", s.problem)
	case c.live && s.World == nil:
		return conformance.Skip("there is no example to make")
	}
	s.Contract = s.kind.Contract
	return c.test(ctx, s)
}
