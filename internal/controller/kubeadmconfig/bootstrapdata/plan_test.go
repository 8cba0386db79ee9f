// SPDX-License-Identifier: Apache-2.0

package bootstrapdata

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

const ttl = 15 * time.Minute

// facts are of a worker in a cluster that others may join.
func facts(change ...func(*Facts)) Facts {
	f := Facts{
		Cluster: Cluster{Name: "demo", Provisioned: true, Initialized: true, Endpoint: true, ControlPlane: true},
		Machine: Machine{Kind: "Machine", Namespace: "ns", Name: "m0", Version: "v1.36.3"},
		Now:     now, TTL: ttl,
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func first(f *Facts) { f.Cluster.Initialized, f.Machine.ControlPlane = false, true }
func pool(f *Facts)  { f.Machine.Kind, f.Machine.Pool = "MachinePool", true }
func nodes(f *Facts) { f.Machine.HasNodes = true }

// made is of data with a token.
func made(f *Facts) {
	f.Made, f.Discovery = true, Discovery{Endpoint: true, Token: true, TokenID: "abcdef"}
}

type tell = map[Kind]Answer

func ends(in time.Duration) tell { return tell{Token: {Expires: now.Add(in)}} }

// run makes the plan and returns its questions. Without an entry in answers, the answer
// reports success. The record of the plan must give the same plan again.
func run(t *testing.T, f Facts, answers tell) ([]Question, Plan) {
	t.Helper()
	record, err := Planner.Make(f, func(q Question) (Answer, error) { return answers[q.Kind], nil })
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(record)
	var read Record
	if err := errors.Join(err, json.Unmarshal(text, &read)); err != nil {
		t.Fatal(err)
	}
	if again, err := Planner.Again(read); err != nil || again != record.Plan {
		t.Errorf("made again: %+v, %v, want %+v", again, err, record.Plan)
	}
	var asked []Question
	for _, a := range record.Answers {
		asked = append(asked, a.Question)
	}
	return asked, record.Plan
}

type test struct {
	facts   Facts
	answers tell
	asked   []Question
	plan    Plan
}

func check(t *testing.T, tests map[string]test) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, plan := run(t, tc.facts, tc.answers)
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.plan, plan); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsMadeBeforeItCanBe(t *testing.T) {
	t.Parallel()
	check(t, map[string]test{
		"without infrastructure": {
			facts: facts(first, func(f *Facts) { f.Cluster.Provisioned = false }),
			plan:  Plan{Waiting: "Waiting for the infrastructure of Cluster demo to be provisioned"},
		},
		"a worker without a control plane": {
			facts: facts(func(f *Facts) { f.Cluster.Initialized = false }),
			plan:  Plan{Waiting: "Waiting for the control plane of Cluster demo to be initialized"},
		},
		"a pool without a control plane": {
			facts: facts(pool, func(f *Facts) { f.Cluster.Initialized = false }),
			plan:  Plan{Waiting: "Waiting for the control plane of Cluster demo to be initialized"},
		},
		"of no version": {
			facts: facts(first, func(f *Facts) { f.Machine.Version = "" }),
			plan:  Plan{Refused: "Machine ns/m0 has no spec.version: set the version of Kubernetes"},
		},
	})
}

func TestOneMachineInitializes(t *testing.T) {
	t.Parallel()
	find, prepare := Question{Kind: DoFindCertificates}, Question{Kind: DoPrepare, Init: true}
	take, store := Question{Kind: DoTakeLock}, Question{Kind: DoStore, Init: true}
	held := func(by string) Answer {
		lock, err := LockOf(by)
		if err != nil {
			t.Fatal(err)
		}
		return Answer{Held: true, Lock: lock}
	}
	check(t, map[string]test{
		"the first":                 {facts: facts(first), asked: []Question{find, prepare, take, store}},
		"the one that has the lock": {facts: facts(first), answers: tell{DoTakeLock: held("m0")}, asked: []Question{find, prepare, take, store}},
		"in a Cluster without a control plane object": {
			facts: facts(first, func(f *Facts) { f.Cluster.ControlPlane = false }),
			asked: []Question{{Kind: DoFindCertificates, Generate: true}, prepare, take, store},
		},
		"not without its certificates": {
			facts: facts(first), answers: tell{DoFindCertificates: {Missing: "ns/demo-ca"}}, asked: []Question{find},
			plan: Plan{Waiting: "Waiting for Secret ns/demo-ca with certificates of the cluster", Secret: true},
		},
		"not next to another": {
			facts: facts(first), answers: tell{DoTakeLock: held("m1"), Holder: {Exists: true}},
			asked: []Question{find, prepare, take, {Kind: Holder, Name: "m1"}},
			plan:  Plan{Waiting: "Waiting for Machine ns/m1 to initialize the control plane"},
		},
		"in the place of one that has gone": {
			facts: facts(first), answers: tell{DoTakeLock: held("m1")},
			asked: []Question{find, prepare, take, {Kind: Holder, Name: "m1"}, {Kind: DoReplaceLock, Name: "m1"}, store},
		},
		"not while the lock has no holder": {
			facts: facts(first), answers: tell{DoTakeLock: {Held: true}}, asked: []Question{find, prepare, take},
			plan: Plan{Refused: "the init lock, ConfigMap ns/demo-lock, does not say in its key lock-information who holds it: delete it"},
		},
		"not while a lock is nonsense": {
			facts: facts(first), answers: tell{DoTakeLock: {Held: true, Lock: "m0"}}, asked: []Question{find, prepare, take},
			plan: Plan{Refused: "the init lock, ConfigMap ns/demo-lock, does not say in its key lock-information who holds it: delete it"},
		},
	})
}

func TestAllOthersJoin(t *testing.T) {
	t.Parallel()
	begin := []Question{{Kind: DoReleaseLock}, {Kind: DoFindCertificates}, {Kind: DoPrepare}}
	discover := func(newToken bool) []Question {
		return append(append([]Question{}, begin...), Question{Kind: DoDiscover, NewToken: newToken})
	}
	all := func(newToken bool) []Question { return append(discover(newToken), Question{Kind: DoStore}) }
	check(t, map[string]test{
		"a worker":                {facts: facts(), asked: all(true), plan: Plan{Look: ttl / 3}},
		"a control plane machine": {facts: facts(func(f *Facts) { f.Machine.ControlPlane = true }), asked: all(true), plan: Plan{Look: ttl / 3}},
		"with the token that there is": {
			facts: facts(func(f *Facts) { f.Discovery.Token = true }), asked: all(false), plan: Plan{Look: ttl / 3},
		},
		"by a file": {facts: facts(func(f *Facts) { f.Discovery.File = true }), asked: all(false)},
		"not without certificates": {
			facts: facts(), answers: tell{DoFindCertificates: {Missing: "ns/demo-ca"}}, asked: begin[:2],
			plan: Plan{Waiting: "Waiting for Secret ns/demo-ca with certificates of the cluster", Secret: true},
		},
		"not without an endpoint": {
			facts: facts(func(f *Facts) { f.Cluster.Endpoint = false }), asked: begin,
			plan: Plan{Waiting: "Waiting for Cluster demo to have a spec.controlPlaneEndpoint"},
		},
		"at the user's endpoint": {
			facts: facts(func(f *Facts) { f.Cluster.Endpoint, f.Discovery.Endpoint = false, true }), asked: all(true), plan: Plan{Look: ttl / 3},
		},
		"not by a file without an endpoint": {
			facts: facts(func(f *Facts) { f.Cluster.Endpoint, f.Discovery = false, Discovery{File: true, Endpoint: true} }), asked: begin,
			plan: Plan{Waiting: "Waiting for Cluster demo to have a spec.controlPlaneEndpoint"},
		},
		"not without a connection": {
			facts: facts(), answers: tell{DoDiscover: {Disconnected: true}}, asked: discover(true),
			plan: Plan{Waiting: "Waiting for the connection to the workload cluster of Cluster demo"},
		},
	})
}

func TestDataIsKept(t *testing.T) {
	t.Parallel()
	own, look := Question{Kind: DoOwn}, Question{Kind: Token}
	check(t, map[string]test{
		"of kubeadm init":       {facts: facts(first, made, func(f *Facts) { f.Discovery = Discovery{} }), asked: []Question{own}, plan: Plan{Forget: true}},
		"by a file":             {facts: facts(made, func(f *Facts) { f.Discovery.File = true }), asked: []Question{own}, plan: Plan{Forget: true}},
		"of a machine that is":  {facts: facts(made, nodes), asked: []Question{own}, plan: Plan{Forget: true}},
		"any spec":              {facts: facts(made, nodes, func(f *Facts) { f.Machine.Version, f.Cluster.Provisioned = "", false }), asked: []Question{own}, plan: Plan{Forget: true}},
		"that the Machine has":  {facts: facts(func(f *Facts) { f.Machine.DataSecretName = "m0" }), asked: []Question{{Kind: DoTakeOver}, own}, plan: Plan{Forget: true}},
		"and rests until later": {facts: facts(made, func(f *Facts) { f.LookAt = now.Add(time.Minute) }), asked: []Question{own}, plan: Plan{Again: time.Minute}},
		"without a connection":  {facts: facts(made), answers: tell{Token: {Disconnected: true}}, asked: []Question{own, look}, plan: Plan{Again: ttl / 6}},
		"without its token":     {facts: facts(made), answers: tell{Token: {Gone: true}}, asked: []Question{own, look}},
		"its token is young":    {facts: facts(made), answers: ends(ttl), asked: []Question{own, look}, plan: Plan{Look: ttl / 3}},
		"its token ages":        {facts: facts(made), answers: ends(ttl / 2), asked: []Question{own, look, {Kind: DoExtend}}, plan: Plan{Look: ttl / 3}},
		"its token never ends":  {facts: facts(made), asked: []Question{own, look}},
	})
}

func TestAPoolsTokenIsReplaced(t *testing.T) {
	t.Parallel()
	look := []Question{{Kind: DoOwn}, {Kind: Token}}
	discover := append(append([]Question{}, look...), Question{Kind: DoReleaseLock}, Question{Kind: DoFindCertificates}, Question{Kind: DoPrepare}, Question{Kind: DoDiscover, NewToken: true})
	rotate := append(append([]Question{}, discover...), Question{Kind: DoStore})
	gone := tell{Token: {Gone: true}}
	check(t, map[string]test{
		"when it is gone":                         {facts: facts(made, pool), answers: gone, asked: rotate, plan: Plan{Look: ttl / 3}},
		"when it ends":                            {facts: facts(made, pool, nodes), answers: ends(ttl/2 - time.Second), asked: rotate, plan: Plan{Look: ttl / 3}},
		"not while it lasts":                      {facts: facts(made, pool, nodes), answers: ends(ttl / 2), asked: look, plan: Plan{Look: ttl / 3}},
		"not if it never ends":                    {facts: facts(made, pool, nodes), asked: look},
		"not before the first machine has joined": {facts: facts(made, pool), answers: ends(ttl/2 - time.Second), asked: append(append([]Question{}, look...), Question{Kind: DoExtend}), plan: Plan{Look: ttl / 3}},
		"later, without certificates": {
			facts: facts(made, pool), answers: tell{Token: {Gone: true}, DoFindCertificates: {Missing: "ns/demo-ca"}}, asked: discover[:4],
			plan: Plan{Waiting: "Waiting for Secret ns/demo-ca with certificates of the cluster", Again: ttl / 6},
		},
		"later, without a connection": {
			facts: facts(made, pool), answers: tell{Token: {Gone: true}, DoDiscover: {Disconnected: true}}, asked: discover,
			plan: Plan{Waiting: "Waiting for the connection to the workload cluster of Cluster demo", Again: ttl / 6},
		},
	})
}

func TestAPoolsDataIsMadeAgainWhenItsSpecChanges(t *testing.T) {
	t.Parallel()
	stale := func(f *Facts) { f.Stale = true }
	resting := func(f *Facts) { f.LookAt = now.Add(time.Minute) }
	join := func(newToken bool) []Question {
		return []Question{{Kind: DoReleaseLock}, {Kind: DoFindCertificates}, {Kind: DoPrepare}, {Kind: DoDiscover, NewToken: newToken}, {Kind: DoStore}}
	}
	after := func(first []Question, more []Question) []Question {
		return append(append([]Question{}, first...), more...)
	}
	own, look := []Question{{Kind: DoOwn}}, []Question{{Kind: DoOwn}, {Kind: Token}}
	check(t, map[string]test{
		"while its token lasts":          {facts: facts(made, pool, stale, resting), asked: after(own, join(false)), plan: Plan{Again: time.Minute}},
		"when its token is due":          {facts: facts(made, pool, nodes, stale), answers: ends(ttl), asked: after(look, join(false)), plan: Plan{Look: ttl / 3}},
		"once, with a token that ends":   {facts: facts(made, pool, nodes, stale), answers: ends(time.Minute), asked: after(look, join(true)), plan: Plan{Look: ttl / 3}},
		"with a token if it lost it":     {facts: facts(made, pool, stale, func(f *Facts) { f.Discovery.Token, f.Discovery.TokenID = false, "" }), asked: after(own, join(true)), plan: Plan{Look: ttl / 3}},
		"without one that a user brings": {facts: facts(made, pool, stale, func(f *Facts) { f.Discovery = Discovery{File: true} }), asked: after(own, join(false)), plan: Plan{Forget: true}},
		"not that of a Machine":          {facts: facts(made, stale, resting), asked: own, plan: Plan{Again: time.Minute}},
	})
}

func TestWhatFailsEndsThePlan(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, fails := range []Kind{DoFindCertificates, DoPrepare, DoTakeLock, DoStore} {
		var asked Kind
		record, err := Planner.Make(facts(first), func(q Question) (a Answer, err error) {
			if asked = q.Kind; q.Kind == fails {
				err = boom
			}
			return a, err
		})
		if !errors.Is(err, boom) || asked != fails || record.Plan != (Plan{}) {
			t.Errorf("%s: error %v, asked %s last, plan %+v", fails, err, asked, record.Plan)
		}
	}
}

func TestALockNamesItsHolder(t *testing.T) {
	t.Parallel()
	lock, err := LockOf("m0")
	if err != nil || lock != `{"machineName":"m0"}` || HolderOf(lock) != "m0" {
		t.Errorf("lock %s, of %q, error %v", lock, HolderOf(lock), err)
	}
	if name := LockName("demo"); name != "demo-lock" || !IsLock(name) || IsLock("demo") {
		t.Errorf("lock %s", name)
	}
}
