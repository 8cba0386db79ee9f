// SPDX-License-Identifier: Apache-2.0

package kubecontrollers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// staticMapper has its kinds from the start.
type staticMapper struct{ *meta.DefaultRESTMapper }

func (staticMapper) Reset() {}

// metadataOf returns an object as the garbage collector sees it; owner may be nil.
func metadataOf(kind, name string, owner *metav1.OwnerReference) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"a": "b"}},
	}
	if owner != nil {
		obj.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return obj
}

func TestWhileItStartsTheCollectorReadsOwnersThatAllMeanFromMemory(t *testing.T) {
	t.Parallel()
	maps := corev1.SchemeGroupVersion.WithResource("configmaps")
	of := func(name string, uid types.UID) *metav1.PartialObjectMetadata {
		return metadataOf("Secret", name, &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: uid})
	}
	elsewhere := of("s", "1")
	elsewhere.Namespace = "other"
	tests := map[string]struct {
		objects   []runtime.Object
		started   bool
		wantReads int
	}{
		"one that two refer to":                                 {objects: []runtime.Object{of("a", "1"), of("b", "1")}},
		"one whose name another object means for another":       {objects: []runtime.Object{of("a", "1"), of("b", "2")}, wantReads: 1},
		"one whose name has been taken over, and memory is old": {objects: []runtime.Object{of("a", "2")}, wantReads: 1},
		"one that is referred to from another namespace alone":  {objects: []runtime.Object{elsewhere}, wantReads: 1},
		"one that two refer to, later":                          {objects: []runtime.Object{of("a", "1"), of("b", "1")}, started: true, wantReads: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := metadataOf("ConfigMap", "owner", nil)
			owner.UID = "1"
			c, client := collecting(t, append(tc.objects, owner)...)
			if tc.started {
				c.Started()
			}
			if _, err := c.Resource(maps).Namespace("ns").Get(t.Context(), "owner", metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := reads(client); got != tc.wantReads {
				t.Errorf("%d reads, want %d", got, tc.wantReads)
			}
		})
	}
}

// collecting returns the collector's source with these Secrets and ConfigMaps.
func collecting(t *testing.T, objects ...runtime.Object) (*Objects, *metadatafake.FakeMetadataClient) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	mapper := meta.NewDefaultRESTMapper(nil)
	c := NewObjects(client, staticMapper{mapper})
	for kind, resource := range map[string]string{"Secret": "secrets", "ConfigMap": "configmaps"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
		kind, err := c.ForResource(corev1.SchemeGroupVersion.WithResource(resource))
		if err != nil {
			t.Fatal(err)
		}
		kind.Informer().GetController() // as the collector does when it follows the kind
	}
	c.Start(nil)
	t.Cleanup(c.Shutdown)
	for _, i := range c.known {
		cache.WaitForCacheSync(t.Context().Done(), i.HasSynced)
	}
	return c, client
}

// reads counts the objects that were read from the API server.
func reads(client *metadatafake.FakeMetadataClient) (n int) {
	for _, a := range client.Actions() {
		if a.GetVerb() == "get" {
			n++
		}
	}
	return n
}

func TestTheCollectorReadsFromMemoryWhatOwnsNothing(t *testing.T) {
	secrets, maps := corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("configmaps")
	ofMap := &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "1"}
	ofSecret := &metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "other", UID: "2"}
	tests := map[string]struct {
		secret    *metav1.PartialObjectMetadata
		first     *metav1.PartialObjectMetadata
		resource  schema.GroupVersionResource
		name      string
		wantReads int
	}{
		"an object of a kind that owns nothing":                  {secret: metadataOf("Secret", "s", ofMap), resource: secrets, name: "s"},
		"one that memory does not have":                          {secret: metadataOf("Secret", "s", ofMap), resource: secrets, name: "new", wantReads: 1},
		"an object of a kind that owns something":                {secret: metadataOf("Secret", "s", ofMap), resource: maps, name: "owner", wantReads: 1},
		"an object of a kind of which an owner has just come up": {secret: metadataOf("Secret", "s", nil), first: metadataOf("ConfigMap", "unseen", ofSecret), resource: secrets, name: "s", wantReads: 2},
		"an object of a kind that owns another of the same kind": {secret: metadataOf("Secret", "s", ofSecret), resource: secrets, name: "s", wantReads: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, client := collecting(t, tc.secret, metadataOf("ConfigMap", "owner", nil))
			// Objects that are received later are not in memory.
			for _, obj := range []*metav1.PartialObjectMetadata{metadataOf("Secret", "new", nil), tc.first} {
				if obj == nil {
					continue
				}
				client.PrependReactor("get", "*", answer(obj))
			}
			if tc.first != nil {
				if _, err := c.Resource(maps).Namespace("ns").Get(t.Context(), tc.first.Name, metav1.GetOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			obj, err := c.Resource(tc.resource).Namespace("ns").Get(t.Context(), tc.name, metav1.GetOptions{})
			if err != nil || obj.Name != tc.name {
				t.Fatalf("%v, %v", obj, err)
			}
			if got := reads(client); got != tc.wantReads {
				t.Errorf("%d reads, want %d: %v", got, tc.wantReads, client.Actions())
			}
		})
	}
}

// answer serves one object that no watch has reported.
func answer(obj *metav1.PartialObjectMetadata) clienttesting.ReactionFunc {
	return func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.(clienttesting.GetAction).GetName() == obj.Name, obj, nil
	}
}
