// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

// fleet is what moves in most tests: a Cluster of a class, its objects, and others that
// move by a label.
const fleet = `
{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {namespace: fleet, name: c, uid: c, finalizers: [x/cluster]}, spec: {topology: {classRef: {name: quick}}}, status: {initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true}}}
---
{apiVersion: cluster.x-k8s.io/v1beta2, kind: ClusterClass, metadata: {namespace: fleet, name: quick, uid: quick}, spec: {workers: {}}}
---
{apiVersion: cluster.x-k8s.io/v1beta2, kind: HostTemplate, metadata: {namespace: fleet, name: hosts, uid: hosts, ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: ClusterClass, name: quick, uid: quick}]}, spec: {size: 2}}
---
{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {namespace: fleet, name: m, uid: m, finalizers: [x/machine], labels: {cluster.x-k8s.io/cluster-name: c}, ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: c, uid: c, controller: true, blockOwnerDeletion: true}]}, spec: {clusterName: c}, status: {nodeRef: {name: node}}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: fleet, name: c-kubeconfig, uid: k, ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: c, uid: c}]}, data: {value: eA==}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: fleet, name: c-ca, uid: ca}, data: {tls.crt: eA==, tls.key: eQ==}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: fleet, name: cloud, uid: cloud, labels: {clusterctl.cluster.x-k8s.io/move: ""}}, data: {key: eA==}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: fleet, name: unrelated, uid: unrelated}, data: {key: x}}
`

// beforeMove is what the target has already: an object that is replaced.
const beforeMove = `
{apiVersion: v1, kind: Secret, metadata: {namespace: fleet, name: cloud, uid: before}, data: {key: b2xk}}
`

func parse(t *testing.T, docs string) (all []*unstructured.Unstructured) {
	t.Helper()
	for doc := range strings.SplitSeq(docs, "\n---\n") {
		text, err := yaml.YAMLToJSON([]byte(doc))
		obj := &unstructured.Unstructured{}
		if err == nil {
			err = obj.UnmarshalJSON(text)
		}
		if err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		all = append(all, obj)
	}
	return all
}

// definitionsOf are the definitions of the kinds of fleet.
func definitionsOf(t *testing.T) []*unstructured.Unstructured {
	var docs []string
	for _, kind := range kindsOfFleet {
		docs = append(docs, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[1]s, labels: {clusterctl.cluster.x-k8s.io: ""}},
spec: {group: cluster.x-k8s.io, scope: Namespaced, names: {kind: %[2]s, plural: %[1]s}, versions: [{name: v1beta2, storage: true}]}}`, strings.ToLower(kind)+"s", kind))
	}
	return parse(t, strings.Join(docs, "\n---\n"))
}

var kindsOfFleet = []string{"Cluster", "ClusterClass", "HostTemplate", "Machine"}

// sides are two management clusters, and a process that moves.
type sides struct {
	t              *testing.T
	source, target *side
	clock          *testclock.FakeClock
	calls          []string
	// fails decides about a request by its number, which counts from 1, and text.
	fails func(n int, call string) failure
	dead  bool
	// deleted is what another client has deleted, or everything.
	deleted string
	// both is what stays at the source as well, and is reconciled by both sides.
	both string
	// last is the write before this moment.
	last string
	// processes is how many have moved so far.
	processes int
	// after is called after each write.
	after func(call string)
}

// failure is what happens to a request.
type failure int

const (
	none    failure = iota
	refused         // it is not executed
	busy            // it is not executed, and can be sent again
	lost            // it is executed, but its response gets lost
	died            // the process exits before it sends the request
)

const everything = "everything"

var errDead = errors.New("this process has exited")

// newSides are two management clusters with some objects.
func newSides(t *testing.T, source, target string) *sides {
	t.Helper()
	s := &sides{t: t, clock: testclock.NewFakeClock(time.Unix(1_800_000_000, 0))}
	side := func(name, docs string) *side {
		e := (&side{name: name, objects: map[string]*unstructured.Unstructured{}}).fork(s)
		for _, obj := range definitionsOf(t) {
			e.put(obj)
		}
		e.add("{apiVersion: v1, kind: Namespace, metadata: {name: kube-system, uid: " + name + "}}")
		if docs != "" {
			e.add(docs)
		}
		return e
	}
	s.source, s.target = side("source", source), side("target", target)
	return s
}

// fork is the same moment, for another process and without failures.
func (s *sides) fork() *sides {
	f := &sides{t: s.t, clock: testclock.NewFakeClock(s.clock.Now()), processes: s.processes, deleted: s.deleted, both: s.both}
	f.source, f.target = s.source.fork(f), s.target.fork(f)
	return f
}

// contents are what a move must keep, by name: all except what a server sets, with owners
// by name.
func (e *side) contents() map[string]string {
	out, names := map[string]string{}, []string{}
	for name, obj := range e.objects {
		names = append(names, string(obj.GetUID()), name)
	}
	for name, obj := range e.objects {
		if kind := obj.GetKind(); kind == definitions.Kind || kind == namespaces.Kind {
			continue
		}
		obj = obj.DeepCopy()
		delete(obj.Object, "status")
		owners := obj.GetOwnerReferences()
		for n := range owners {
			at := slices.Index(names, string(owners[n].UID))
			if at < 0 {
				e.t.Errorf("%s: the owner %s of %s does not exist", e.name, owners[n].Name, name)
				continue
			}
			owners[n].UID = types.UID(names[at+1])
		}
		obj.SetOwnerReferences(owners)
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
			unstructured.RemoveNestedField(obj.Object, "metadata", field)
		}
		if len(obj.GetAnnotations()) == 0 {
			obj.SetAnnotations(nil)
		}
		text, err := obj.MarshalJSON()
		if err != nil {
			e.t.Fatal(err)
		}
		out[name] = string(text)
	}
	return out
}

// has checks the objects of both sides.
func (s *sides) has(what string, want result) {
	s.t.Helper()
	if diff := cmp.Diff(want.source, s.source.contents()); diff != "" {
		s.t.Errorf("%s: objects of the source (-want +got):\n%s", what, diff)
	}
	if diff := cmp.Diff(want.target, s.target.contents()); diff != "" {
		s.t.Errorf("%s: objects of the target (-want +got):\n%s", what, diff)
	}
}

// stepping is a clock that advances by the duration of each wait.
type stepping struct{ *testclock.FakeClock }

func (s stepping) After(d time.Duration) <-chan time.Time {
	done := s.FakeClock.After(d)
	s.Step(d)
	return done
}

// options are those of a process that moves, with a name of its own.
func (s *sides) options() Options {
	s.processes++
	return Options{
		Source: s.source, Target: s.target, Namespace: "fleet", By: fmt.Sprint("process ", s.processes),
		Gone: func(string) bool { return true }, Parallel: 1, Clock: stepping{s.clock},
	}
}

// run moves, or rolls back, in a new process.
func (s *sides) run(rollback bool) error {
	s.dead, s.calls = false, nil
	o := s.options()
	o.Rollback = rollback
	return Run(s.t.Context(), o)
}

// moments runs in a new process, and returns the moments after its writes: a process that
// exits leaves one of them.
func (s *sides) moments(run func() error) (moments []*sides) {
	s.t.Helper()
	s.after = func(call string) {
		moments = append(moments, s.fork())
		moments[len(moments)-1].last = call
	}
	if err := run(); err != nil {
		s.t.Fatal(err)
	}
	return moments
}

// result is what both sides have.
type result struct{ source, target map[string]string }

// beginning is the moment before a move, with what both sides have then and after it.
func beginning(t *testing.T) (s *sides, before, after result) {
	t.Helper()
	s = newSides(t, fleet, beforeMove)
	before = result{s.source.contents(), s.target.contents()}
	const stays = "ConfigMap fleet/unrelated"
	after = result{map[string]string{stays: before.source[stays]}, maps.Clone(before.source)}
	delete(after.target, stays)
	return s, before, after
}
