// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/randfill"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// small bounds the numbers of replicas, which are work to do, and has negative ones. A
// schema has one level: filled at random, a type that contains itself has no end.
func small(serializer.CodecFactory) []any {
	return []any{
		func(n *int32, c randfill.Continue) { *n = int32(c.Intn(9) - 2) },
		func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
			c.Fill(&s.Type)
			c.Fill(&s.Pattern)
			s.Properties = map[string]apiextensionsv1.JSONSchemaProps{c.String(0): {Type: c.String(0)}}
		},
	}
}

// FuzzControllers has objects of each served kind in a cluster: those that are accepted,
// and those that an earlier version could have stored. No controller panics, and other
// objects can be added afterwards.
func FuzzControllers(f *testing.F) {
	for seed := range int64(6) {
		f.Add(seed)
	}
	f.Add(int64(-44)) // its schemas of custom resources had no end
	f.Fuzz(func(t *testing.T, seed int64) {
		var mu sync.Mutex // timers have goroutines
		var panics []string
		log := funcr.New(func(_, args string) {
			if strings.Contains(args, "Observed a panic") {
				mu.Lock()
				defer mu.Unlock()
				panics = append(panics, args)
			}
		}, funcr.Options{})
		now := testclock.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
		s := newStore(t, now, log)
		work := controllers(t, s, now, log, true)
		codecs := serializer.NewCodecFactory(kinds.Scheme())
		fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, small), rand.NewSource(seed), codecs)
		for _, k := range s.Kinds().All() {
			if k.Virtual || k.StoredAs != k.GroupVersionKind || k.Kind == "ComponentStatus" {
				continue
			}
			obj, err := k.New()
			if err != nil {
				t.Fatal(err)
			}
			fill.Fill(obj)
			o := obj.(objects.Object)
			identify(o, k)
			if s.Add(o) == nil {
				continue
			}
			identify(o, k)
			o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
			if err := inject(s, k, o); err != nil {
				t.Logf("%s is not stored: %v", k.Kind, err)
			}
		}
		for range 3 {
			now.Step(time.Hour)
			work.Reconcile()
		}
		mu.Lock()
		defer mu.Unlock()
		for _, p := range panics {
			t.Errorf("seed %d: %s", seed, p)
		}
		add(t, s, replicaSet("good"))
	})
}

// identify gives an object the name by which a client would write it.
func identify(o objects.Object, k *kinds.Kind) {
	o.SetName("fuzzed")
	o.SetGenerateName("")
	o.SetNamespace("")
	if k.Namespaced {
		o.SetNamespace("default")
	}
	o.SetResourceVersion("")
	o.SetUID(types.UID("fuzzed-" + k.Resource))
	o.SetFinalizers(nil)
	o.SetDeletionTimestamp(nil)
}

// inject stores an object that validation refuses.
func inject(s *objects.Store, k *kinds.Kind, o objects.Object) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	e := &store.Entry{UID: o.GetUID(), Labels: o.GetLabels(), Raw: raw}
	for _, owner := range o.GetOwnerReferences() {
		e.Owners = append(e.Owners, owner.UID)
	}
	key := store.Key{Resource: k.Stored(), Namespace: o.GetNamespace(), Name: o.GetName()}
	_, err = s.Entries().Put(key, s.Entries().Get(key), func(uint64) (*store.Entry, error) { return e, nil })
	return err
}
