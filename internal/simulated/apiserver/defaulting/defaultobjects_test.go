// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"bytes"
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

func TestObjectsAreCompleteAndUnique(t *testing.T) {
	t.Parallel()
	uids, keys := map[types.UID]bool{}, map[store.Key]bool{}
	for _, e := range Objects() {
		var head metav1.PartialObjectMetadata
		if err := json.Unmarshal(e.Raw, &head); err != nil {
			t.Fatal(err)
		}
		if head.UID != e.UID || head.Name != e.Key.Name || head.Namespace != e.Key.Namespace || head.ResourceVersion != "1" || e.Version != 1 || !e.Born || head.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z") != Since {
			t.Errorf("%v is %+v", e.Key, head)
		}
		if uids[e.UID] || keys[e.Key] || len(e.UID) != 36 {
			t.Errorf("%v repeats a name, or the UID %s", e.Key, e.UID)
		}
		uids[e.UID], keys[e.Key] = true, true
	}
	for name, there := range map[string]bool{"cluster-admin": true, "system:node": true, "view": true, "nope": false} {
		if key := (store.Key{Resource: schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, Name: name}); keys[key] != there {
			t.Errorf("cluster role %s: %v, want %v", name, keys[key], there)
		}
	}
}

func TestReadAccessDecodesRolesAndBindings(t *testing.T) {
	t.Parallel()
	for _, e := range Objects() {
		known, err := ReadAccess(e)
		if err != nil || known == nil || len(known.Rules)+len(known.Subjects) == 0 && known.Aggregation == nil && known.RoleRef.Name == "" && bytes.Contains(e.Raw, []byte(`"verbs"`)) {
			t.Errorf("%v: %+v, error %v", e.Key, known, err)
		}
	}
	own := &store.Entry{Raw: []byte(`{"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"jane"}],"rules":[{"verbs":["get"]}],"aggregationRule":{}}`)}
	if a, err := ReadAccess(own); err != nil || a.RoleRef.Name != "r" || len(a.Subjects) != 1 || len(a.Rules) != 1 || a.Aggregation == nil {
		t.Errorf("got %+v, error %v", a, err)
	}
	if a, err := ReadAccess(&store.Entry{Raw: []byte(`{"subjects":{}}`)}); err == nil {
		t.Errorf("subjects that are no list: %+v", a)
	}
}
