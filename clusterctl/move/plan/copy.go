// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Annotation marks an object that a move has created, until the move is complete. It
// is set by the request that creates the object, so that no object of a move exists
// without it.
const Annotation = "move.capstan.dev/origin"

// Mark is the value of the annotation.
type Mark struct {
	// Operation is the move.
	Operation string `json:"operation"`
	// UID is that of the object from which this one was copied.
	UID types.UID `json:"uid"`
	// Content is a digest of what was copied. A copy does not show what it has in excess:
	// that may also be a default of the server.
	Content string `json:"content,omitempty"`
	// Replaced means that another object had that name before.
	Replaced bool `json:"replaced,omitempty"`
	// ManagedFields are those of the object from which this one was copied. They are
	// restored at the end: a server ignores them when an object is created.
	ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
	// Owners are those of the original that its copy cannot have. An object that is copied
	// back has them again.
	Owners []metav1.OwnerReference `json:"owners,omitempty"`
}

// MarkOf reads the mark of an object; one without has the zero value.
func MarkOf(obj *unstructured.Unstructured) (m Mark) {
	if err := utiljson.Unmarshal([]byte(obj.GetAnnotations()[Annotation]), &m); err != nil {
		return Mark{}
	}
	return m
}

// Copy is an object as it is created on the other side: without its status and the
// fields that a server sets, with the UIDs that its owners have there, paused, and
// marked. An owner that does not exist there is left out. Of mark, the operation is
// required, and whether another object is replaced.
func Copy(i Item, from *unstructured.Unstructured, mark Mark, uids map[types.UID]types.UID) (*unstructured.Unstructured, error) {
	obj := from.DeepCopy()
	delete(obj.Object, "status")
	meta := map[string]any{}
	for _, field := range []string{"name", "namespace", "labels", "annotations", "finalizers"} {
		if value, ok, _ := unstructured.NestedFieldCopy(from.Object, "metadata", field); ok {
			meta[field] = value
		}
	}
	obj.Object["metadata"] = meta
	mark.UID, mark.ManagedFields = from.GetUID(), from.GetManagedFields()
	var owners, back []metav1.OwnerReference
	// An object that this operation created and that is copied back has its original
	// managedFields and owners.
	if m := MarkOf(from); m.Operation == mark.Operation {
		mark.ManagedFields, back = m.ManagedFields, m.Owners
	}
	for _, ref := range from.GetOwnerReferences() {
		uid := uids[ref.UID]
		if uid == "" {
			mark.Owners = append(mark.Owners, ref)
			continue
		}
		for _, entry := range mark.ManagedFields { // they name owners by their UIDs
			if entry.FieldsV1 != nil {
				entry.FieldsV1.Raw = bytes.ReplaceAll(entry.FieldsV1.Raw, []byte(ref.UID), []byte(uid))
			}
		}
		ref.UID = uid
		owners = append(owners, ref)
	}
	if owners = append(owners, back...); len(owners) > 0 {
		obj.SetOwnerReferences(owners)
	}
	if i.Of(Clusters()) {
		if err := unstructured.SetNestedField(obj.Object, true, "spec", "paused"); err != nil {
			return nil, fmt.Errorf("%s: %w", i, err)
		}
	}
	notes := obj.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	delete(notes, clusterctlv1.DeleteForMoveAnnotation)
	if i.Of(ClusterClasses()) {
		notes[clusterv1.PausedAnnotation] = "true"
	}
	delete(notes, Annotation)
	obj.SetAnnotations(notes)
	copied := content(obj)
	unstructured.RemoveNestedField(copied, "metadata", "finalizers") // controllers may remove theirs at the end
	text, err := utiljson.Marshal(copied)
	if err == nil {
		mark.Content = fmt.Sprintf("%x", sha256.Sum256(text))[:16]
		text, err = utiljson.Marshal(mark)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i, err)
	}
	notes[Annotation] = string(text)
	obj.SetAnnotations(notes)
	return obj, nil
}

// Seal is the merge patch that restores the original state in a copy: with its
// managedFields, without the mark, and no longer paused. It is nil if nothing has to
// change. With originals, the pause also ends of the object that was planned to move; a
// pause of any other object is that of a user.
func Seal(i Item, obj *unstructured.Unstructured, operation string, originals bool) map[string]any {
	patch, mark := map[string]any{}, MarkOf(obj)
	mine := mark.Operation == operation
	original := originals && i.Keep == "" && obj.GetUID() == i.UID // an object that stays was not paused
	if Pausable(i) && Paused(i, obj) && (mine || original) {
		patch = Pause(i, false)
	}
	if mine {
		meta, _ := patch["metadata"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
			patch["metadata"] = meta
		}
		notes, _ := meta["annotations"].(map[string]any)
		if notes == nil {
			notes = map[string]any{}
			meta["annotations"] = notes
		}
		notes[Annotation] = nil
		if len(mark.ManagedFields) > 0 {
			meta["managedFields"] = mark.ManagedFields
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// Differences lists the fields of a copy that are not as they should be. What a
// server adds, such as defaults, is none.
func Differences(want, have *unstructured.Unstructured) []string {
	return differences(content(want), content(have), "")
}

// content is what a move has to keep of an object.
func content(obj *unstructured.Unstructured) map[string]any {
	c := maps.Clone(obj.Object)
	delete(c, "status")
	delete(c, "apiVersion") // a server answers in the version that it was asked in
	notes := maps.Clone(obj.GetAnnotations())
	mark := MarkOf(obj)
	delete(notes, Annotation)
	delete(notes, clusterctlv1.DeleteForMoveAnnotation)
	owners := map[string]any{}
	for _, ref := range obj.GetOwnerReferences() {
		owners[ref.Kind+" "+ref.Name] = string(ref.UID)
	}
	c["metadata"] = map[string]any{
		"labels": texts(obj.GetLabels()), "annotations": texts(notes), "finalizers": obj.GetFinalizers(), "ownerReferences": owners,
		"copy of": string(mark.UID), "copied content": mark.Content,
	}
	return c
}

func texts(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func differences(want, have any, path string) (all []string) {
	switch want := want.(type) {
	case map[string]any:
		have, _ := have.(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(want)) {
			if want[field] != nil {
				all = append(all, differences(want[field], have[field], path+"."+field)...)
			}
		}
		return all
	case []any:
		have, _ := have.([]any)
		if len(have) != len(want) {
			return []string{path}
		}
		for n := range want {
			all = append(all, differences(want[n], have[n], fmt.Sprintf("%s[%d]", path, n))...)
		}
		return all
	case []string:
		have, _ := have.([]string)
		for _, s := range want {
			if !slices.Contains(have, s) {
				all = append(all, path+" "+s)
			}
		}
		return all
	}
	if want != have {
		return []string{path}
	}
	return nil
}

// Pack writes a plan as text that fits into a ConfigMap: most of it are UIDs, which
// do not get smaller, and names, which do.
func Pack(p *Plan) (string, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := errors.Join(json.NewEncoder(zip).Encode(p), zip.Close()); err != nil {
		return "", err
	}
	if out.Len() > 1<<20-1<<14 { // what an API server allows, less the rest of the journal
		return "", fmt.Errorf("%d objects are too many for one move: its journal would be larger than a ConfigMap may be; take the labels off that make unrelated objects move, or move in parts", len(p.Items))
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

// Unpack reads what Pack wrote.
func Unpack(packed string) (*Plan, error) {
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, err
	}
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(zip, 256<<20))
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	return p, json.Unmarshal(text, p)
}
