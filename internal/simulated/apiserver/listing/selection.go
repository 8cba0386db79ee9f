// SPDX-License-Identifier: Apache-2.0

// Package listing selects the objects of a resource for a client, and returns them
// in pages of one version.
//
// It also shows objects as the rows of a table that kubectl prints.
package listing

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// selectable lists the fields that may be selected by, in addition to name and
// namespace.
var selectable = map[string][]string{
	"pods": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
		"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"},
	"nodes":                      {"spec.unschedulable", "spec.providerID"},
	"namespaces":                 {"status.phase"},
	"secrets":                    {"type"},
	"events":                     {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"},
	"events.events.k8s.io":       {"regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type"},
	"replicationcontrollers":     {"status.replicas"},
	"services":                   {"spec.clusterIP", "spec.type"},
	"jobs":                       {"status.successful"},
	"certificatesigningrequests": {"spec.signerName"},
	"resourceslices":             {"spec.nodeName", "spec.driver"},
}

// Selection is the objects of a resource, or of one namespace, that a client
// selects.
type Selection struct {
	kind      *kinds.Kind
	namespace string
	labels    labels.Selector
	fields    fields.Requirements
}

// all reports whether nothing is left out.
func (sel Selection) all() bool { return sel.labels.Empty() && len(sel.fields) == 0 }

// Select reads a selection: of a kind, in a namespace and of a name unless
// those are empty.
func Select(k *kinds.Kind, namespace, name string, o *internalversion.ListOptions) (Selection, error) {
	sel := Selection{kind: k, namespace: namespace}
	if !k.Namespaced {
		sel.namespace = ""
	}
	if sel.labels = o.LabelSelector; sel.labels == nil {
		sel.labels = labels.Everything()
	}
	if o.FieldSelector != nil {
		sel.fields = o.FieldSelector.Requirements()
	}
	if name != "" {
		sel.fields = append(sel.fields, fields.OneTermEqualSelector("metadata.name", name).Requirements()...)
	}
	known := selectable[k.Resource]
	switch {
	case k.Custom != nil:
		var err error
		if known, err = k.Custom.Selectable(); err != nil {
			return sel, err
		}
	case k.Stored() != k.GroupResource():
		known = selectable[k.GroupResource().String()]
	}
	other := known == nil && k.Custom == nil
	for _, f := range sel.fields {
		switch {
		case f.Field == "metadata.name", f.Field == "metadata.namespace" && (k.Namespaced || other), slices.Contains(known, f.Field):
		case other:
			return sel, apierrors.NewBadRequest(fmt.Sprintf("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", f.Field))
		default:
			return sel, apierrors.NewBadRequest("field label not supported: " + f.Field)
		}
	}
	return sel, nil
}

// Matches reports whether an entry, of the right resource, is selected. It accepts
// nil.
func (sel Selection) Matches(e *store.Entry) bool {
	if e == nil || (sel.namespace != "" && e.Key.Namespace != sel.namespace) || !sel.labels.Matches(labels.Set(e.Labels)) {
		return false
	}
	var value func(field string) string
	for _, f := range sel.fields {
		var got string
		switch f.Field {
		case "metadata.name":
			got = e.Key.Name
		case "metadata.namespace":
			got = e.Key.Namespace
		default:
			if f.Operator != "!=" && sel.lacks(e, f.Value) {
				return false
			}
			if value == nil {
				value = sel.values(e)
			}
			got = value(f.Field)
		}
		if (got == f.Value) == (f.Operator == "!=") {
			return false
		}
	}
	return true
}

// lacks reports that no field of an entry has a value, because it is not in the JSON
// text of the entry. Parsing an object takes a hundred times as long, and a selector
// for the provider ID of a Node does not match most of them.
func (sel Selection) lacks(e *store.Entry, value string) bool {
	if sel.kind.Custom != nil || value == "true" || value == "false" { // fields that are not set can be false
		return false
	}
	letter := false
	for _, c := range []byte(value) {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			letter = true // else it can be a number, which has several forms
		case '0' <= c && c <= '9' || strings.IndexByte(":/._-", c) >= 0:
		default:
			return false // JSON can escape it
		}
	}
	return letter && !bytes.Contains(e.Raw, []byte(value))
}

// values gives the fields of an entry as selectors see them.
func (sel Selection) values(e *store.Entry) func(field string) string {
	u, err := objects.Read(sel.kind, e)
	if err != nil {
		return func(string) string { return "" }
	}
	if sel.kind.Custom == nil {
		return func(field string) string { return fieldValue(u.Object, field) }
	}
	set, err := sel.kind.Custom.Fields(u)
	if err != nil {
		return func(string) string { return "" }
	}
	return func(field string) string { return set[field] }
}

// fieldValue gives a field as selectors see it: empty if it is not there, but
// "false" or "0" for what has such a zero value.
func fieldValue(content map[string]any, path string) string {
	keys := strings.Split(path, ".")
	switch path {
	case "source":
		if keys = []string{"source", "component"}; fieldValue(content, "source.component") == "" {
			keys = []string{"reportingComponent"}
		}
	case "status.successful":
		keys = []string{"status", "succeeded"}
	}
	v, ok, _ := unstructured.NestedFieldNoCopy(content, keys...)
	if !ok || v == nil {
		switch path {
		case "spec.unschedulable", "spec.hostNetwork":
			return "false"
		case "status.replicas", "status.successful":
			return "0"
		}
		return ""
	}
	return fmt.Sprint(v)
}

// Latest lists the entries that a client selects, and the version they are from.
func (sel Selection) Latest(all *store.Store) ([]*store.Entry, uint64) {
	entries, version := all.List(sel.kind.Stored(), sel.namespace)
	return slices.DeleteFunc(entries, func(e *store.Entry) bool { return !sel.Matches(e) }), version
}
