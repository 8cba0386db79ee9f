// SPDX-License-Identifier: Apache-2.0

package resourcesets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
)

// watched returns the metadata of existing objects: of Secrets, those of the type.
type watched struct {
	cache.Cache
	live client.Client
}

func (w watched) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return w.live.Get(ctx, key, obj, opts...)
}

// counted returns a Store of objects, and a function that returns how often data
// was read.
func counted(t *testing.T, objects ...client.Object) (*Store, client.Client, func() int) {
	t.Helper()
	var mu sync.Mutex
	reads := 0
	c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, meta := obj.(*metav1.PartialObjectMetadata); !meta {
				mu.Lock()
				reads++
				mu.Unlock()
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	return New(c, watched{live: c}), c, func() int { return reads }
}

func config(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}, Data: data}
}

func ref(name string) addonsv1.ResourceRef {
	return addonsv1.ResourceRef{Kind: "ConfigMap", Name: name}
}

const object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"

func TestDataIsReadOnceForAllClusters(t *testing.T) {
	t.Parallel()
	s, c, reads := counted(t, config("x", map[string]string{"a": object}))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if p, err := s.Read(t.Context(), "ns", ref("x")); err != nil || len(p.Objects) != 1 {
				t.Errorf("%d objects, %v", len(p.Objects), err)
			}
		})
	}
	all.Wait()
	if reads() != 1 {
		t.Errorf("%d reads, want 1", reads())
	}
	before, err := s.Hash(t.Context(), "ns", ref("x"))
	if err != nil || reads() != 1 {
		t.Errorf("%d reads, want 1: %v", reads(), err)
	}
	changed := config("x", map[string]string{"a": object, "b": "# more"})
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if after, err := s.Hash(t.Context(), "ns", ref("x")); err != nil || after == before || reads() != 2 {
		t.Errorf("hash %s, was %s, %d reads: %v", after, before, reads(), err)
	}
}

func TestWhatTakesTooMuchRoomIsReadAgainAndItsHashKept(t *testing.T) {
	t.Parallel()
	const n = 6
	var objects []client.Object
	for i := range n {
		objects = append(objects, config(fmt.Sprint(i), map[string]string{"a": object + "\n#" + strings.Repeat("x", kept/4)}))
	}
	s, _, reads := counted(t, objects...)
	for range 2 {
		for i := range n {
			if _, err := s.Read(t.Context(), "ns", ref(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := 0
	for _, m := range s.read {
		held += m.size
	}
	if held > kept || held != s.size || held == 0 {
		t.Errorf("holds %d of %d, counted %d", held, kept, s.size)
	}
	before := reads()
	for i := range n {
		if h, err := s.Hash(t.Context(), "ns", ref(fmt.Sprint(i))); err != nil || h == "" {
			t.Errorf("hash %q: %v", h, err)
		}
	}
	if reads() != before {
		t.Errorf("%d reads for hashes", reads()-before)
	}
}

func TestWhatCannotBeAppliedIsSaid(t *testing.T) {
	t.Parallel()
	ours := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ours"}, Data: map[string][]byte{"password": []byte("x")}}
	s, _, _ := counted(t, ours, config("there", nil))
	s.watched = nil
	for name, tc := range map[string]struct {
		namespace string
		ref       addonsv1.ResourceRef
		want      error
	}{
		"a Secret of another type": {"ns", addonsv1.ResourceRef{Kind: "Secret", Name: "ours"}, ErrWrongType},
		"no Secret":                {"ns", addonsv1.ResourceRef{Kind: "Secret", Name: "none"}, ErrNotFound},
		"no ConfigMap":             {"ns", ref("none"), ErrNotFound},
		"of another namespace":     {"other", ref("there"), ErrNotFound},
	} {
		if _, err := s.Read(t.Context(), tc.namespace, tc.ref); !errors.Is(err, tc.want) {
			t.Errorf("%s: read: %v, want %v", name, err, tc.want)
		}
		if _, err := s.Find(t.Context(), tc.namespace, tc.ref); !errors.Is(err, tc.want) {
			t.Errorf("%s: find: %v, want %v", name, err, tc.want)
		}
	}
}

func TestBinaryDataCountsToo(t *testing.T) {
	t.Parallel()
	c := config("x", nil)
	c.BinaryData = map[string][]byte{"a": []byte(object)}
	s, _, _ := counted(t, c)
	if p, err := s.Read(t.Context(), "ns", ref("x")); err != nil || len(p.Objects) != 1 {
		t.Errorf("%d objects, problems %q, %v", len(p.Objects), p.Problems, err)
	}
}

// TestFailedReadIsRepeated: an error must not be cached, nor what was read before it.
func TestFailedReadIsRepeated(t *testing.T) {
	t.Parallel()
	s, c, _ := counted(t, config("x", map[string]string{"a": object}))
	if _, err := s.Read(t.Context(), "ns", ref("x")); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), config("x", nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hash(t.Context(), "ns", ref("x")); !errors.Is(err, ErrNotFound) || len(s.read) != 0 || s.size != 0 {
		t.Errorf("%v, %d objects of %d bytes are kept", err, len(s.read), s.size)
	}
	if err := c.Create(t.Context(), config("x", nil)); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Read(t.Context(), "ns", ref("x")); err != nil || len(p.Objects) != 0 {
		t.Errorf("%d objects, %v: want those of now", len(p.Objects), err)
	}
}
