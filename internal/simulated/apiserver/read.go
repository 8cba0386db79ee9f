// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/listing"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

func (s *Server) get(w http.ResponseWriter, r *request) error {
	e, err := s.objects.Entry(r.kind, r.namespace, r.name)
	if err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, e)
}

// show sends one object in the form that the client requests.
func (s *Server) show(w http.ResponseWriter, r *request, code int, e *store.Entry) error {
	as, err := acceptable(r.Header.Get("Accept"))
	if err != nil {
		return err
	}
	if as == rows {
		t, err := s.tableOf(r, []*store.Entry{e})
		if err != nil {
			return err
		}
		t.ResourceVersion = strconv.FormatUint(e.Version, 10)
		return respond(w, code, t)
	}
	raw, err := shown(r.kind, e, as)
	if err != nil {
		return err
	}
	respondRaw(w, code, raw)
	return nil
}

func (s *Server) list(w http.ResponseWriter, r *request) error {
	if r.sub != "" {
		return notServed()
	}
	as, err := acceptable(r.Header.Get("Accept"))
	if err != nil {
		return err
	}
	o, err := listOptions(r)
	if err != nil {
		return err
	}
	sel, err := listing.Select(r.kind, r.namespace, r.name, o)
	if err != nil {
		return err
	}
	entries, meta, err := sel.Page(s.objects.Entries(), o)
	if err != nil {
		return err
	}
	if as == rows {
		t, err := s.tableOf(r, entries)
		if err != nil {
			return err
		}
		t.ListMeta = meta
		return respond(w, http.StatusOK, t)
	}
	body, err := listBody(r, as, entries, meta)
	if err != nil {
		return err
	}
	respondRaw(w, http.StatusOK, body)
	return nil
}

// listBody puts a list together of objects that are JSON already.
func listBody(r *request, as form, entries []*store.Entry, meta metav1.ListMeta) ([]byte, error) {
	head, err := json.Marshal(meta)
	if r.kind.Custom != nil && as == whole && meta.Continue == "" { // as a list without a Go type is encoded
		head, err = json.Marshal(map[string]any{"continue": "", "resourceVersion": meta.ResourceVersion})
	}
	if err != nil {
		return nil, err
	}
	gv, kind := r.kind.GroupVersion().String(), r.kind.List
	if as == metaOnly {
		gv, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kind, gv, head)
	for i, e := range entries {
		raw, err := shown(r.kind, e, as)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(raw)
	}
	b.WriteString("]}")
	return b.Bytes(), nil
}

// shown is an object as JSON, whole or its metadata alone.
func shown(k *kinds.Kind, e *store.Entry, as form) ([]byte, error) {
	if as == metaOnly {
		return partial(k, e)
	}
	return objects.Show(k, e)
}

// partial keeps the metadata of an object alone.
func partial(k *kinds.Kind, e *store.Entry) ([]byte, error) {
	raw, err := objects.Show(k, e)
	if err != nil {
		return nil, err
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	head.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	return json.Marshal(head)
}

func (s *Server) tableOf(r *request, entries []*store.Entry) (*metav1.Table, error) {
	var objs []*unstructured.Unstructured
	for _, e := range entries {
		u, err := objects.Read(r.kind, e)
		if err != nil {
			return nil, err
		}
		objs = append(objs, u)
	}
	t, err := listing.Table(r.kind, objs, s.clock.Now())
	if err != nil {
		return nil, err
	}
	for i, e := range entries {
		var raw []byte
		switch metav1.IncludeObjectPolicy(r.query.Get("includeObject")) {
		case metav1.IncludeNone:
			continue
		case metav1.IncludeObject:
			raw, err = objects.Show(r.kind, e)
		default:
			raw, err = partial(r.kind, e)
		}
		if err != nil {
			return nil, err
		}
		t.Rows[i].Object.Raw = raw
	}
	return t, nil
}
