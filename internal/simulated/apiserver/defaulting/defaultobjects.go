// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// objectLines has one object per line, as an API server of Kubernetes creates them. A
// test of testenv compares it with such a server, and can rewrite it.
//
//go:embed objects.jsonl
var objectLines []byte

// Since is the creation time of all of them: the same for all clusters.
const Since = "2020-01-01T00:00:00Z"

// Access has what roles and their bindings, of a cluster or a namespace, have in
// common.
type Access struct {
	RoleRef     rbacv1.RoleRef          `json:"roleRef"`
	Subjects    []rbacv1.Subject        `json:"subjects"`
	Rules       []rbacv1.PolicyRule     `json:"rules"`
	Aggregation *rbacv1.AggregationRule `json:"aggregationRule"`
}

// Objects are those objects, as stores keep them.
func Objects() []*store.Entry { return all().entries }

// ReadAccess decodes a role or a binding. It is not to be changed.
func ReadAccess(e *store.Entry) (*Access, error) {
	if e.Born {
		return all().read[e], nil
	}
	return decode(e)
}

func decode(e *store.Entry) (*Access, error) {
	a := &Access{}
	if err := json.Unmarshal(e.Raw, a); err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", e.Key.Resource, e.Key.Namespace, e.Key.Name, err)
	}
	return a, nil
}

type made struct {
	entries []*store.Entry
	read    map[*store.Entry]*Access
}

var all = sync.OnceValue(func() made {
	m := made{read: map[*store.Entry]*Access{}}
	err := m.make()
	if err != nil {
		panic(fmt.Sprintf("default objects: objects.jsonl: %v", err)) // it is part of the program
	}
	return m
})

func (m *made) make() error {
	for line := range bytes.Lines(objectLines) {
		e, err := entry(line)
		if err != nil {
			return err
		}
		if m.read[e], err = decode(e); err != nil {
			return err
		}
		m.entries = append(m.entries, e)
	}
	return nil
}

// entry completes the object of a line with what a server sets.
func entry(line []byte) (*store.Entry, error) {
	var obj map[string]any
	if err := json.Unmarshal(line, &obj); err != nil {
		return nil, err
	}
	kind, _ := obj["kind"].(string)
	meta, _ := obj["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	version, _ := obj["apiVersion"].(string)
	group, _, _ := strings.Cut(version, "/")
	sum := sha256.Sum256([]byte(kind + "/" + namespace + "/" + name))
	uid := fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	meta["uid"], meta["creationTimestamp"], meta["resourceVersion"] = uid, Since, "1"
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var head metav1.PartialObjectMetadata
	err = json.Unmarshal(raw, &head)
	return &store.Entry{
		Key:  store.Key{Resource: schema.GroupResource{Group: group, Resource: strings.ToLower(kind) + "s"}, Namespace: namespace, Name: name},
		UID:  types.UID(uid),
		Born: true, Version: 1, Labels: head.Labels, Raw: raw,
	}, err
}
