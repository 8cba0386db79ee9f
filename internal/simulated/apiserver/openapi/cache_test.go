// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

func TestADocumentIsMadeOnceForAllWhoAsk(t *testing.T) {
	t.Parallel()
	r := recent{documents: map[subject]func() (*Document, error){}}
	var made atomic.Int32
	ask := func(served *kinds.Set) {
		if d, err := r.get(subject{served, "v2"}, func() (*Document, error) { made.Add(1); return &Document{}, nil }); d == nil || err != nil {
			t.Error(d, err)
		}
	}
	sets := make([]*kinds.Set, remembered+1)
	for i := range sets {
		sets[i] = kinds.Everywhere().With(nil)
	}
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() { ask(sets[0]) })
	}
	group.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times, want once", made.Load())
	}
	for _, s := range sets[1:] {
		ask(s)
	}
	if made.Load() != int32(len(sets)) || len(r.documents) != remembered || len(r.order) != remembered {
		t.Errorf("made %d and kept %d in %d places, want %d and %d", made.Load(), len(r.documents), len(r.order), len(sets), remembered)
	}
}

func TestClustersWithoutDefinitionsShareTheirDocuments(t *testing.T) {
	t.Parallel()
	for _, protobuf := range []bool{false, true} {
		a, err := V2(kinds.Everywhere(), protobuf)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := V2(kinds.Everywhere().With(nil), protobuf); err != nil || a != b {
			t.Errorf("protobuf %v: two documents, error %v", protobuf, err)
		}
	}
}
