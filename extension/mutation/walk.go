// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Visit reads one template and, for GeneratePatches, changes t.Object.
type Visit func(ctx context.Context, t *Template) error

// GeneratePatches calls visit with every template of req, in their order, and puts a
// patch into resp for each one that changed. Errors and panics of visit become errors
// that name the template and its holder; if any occurs, resp gets no patch at all.
func GeneratePatches(ctx context.Context, req *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse, visit Visit, opts ...Option) error {
	w, err := newWalk(visit, opts, req.Variables)
	if err != nil {
		return err
	}
	var patches []hooksv1.GeneratePatchesResponseItem
	seen := map[types.UID]int{}
	for i := range req.Items {
		in := &req.Items[i]
		goOn := w.step(ctx, item{index: i, holder: in.HolderReference, object: &in.Object, variables: in.Variables}, func(t *Template, before map[string]any) error {
			first, twice := seen[in.UID]
			switch {
			case in.UID == "":
				return errors.New("has no uid")
			case twice:
				return fmt.Errorf("has the uid %s of item %d", in.UID, first)
			}
			seen[in.UID] = i
			t.UID = in.UID
			if err := w.call(ctx, t); err != nil {
				return err
			}
			p, err := between(before, t.Object.UnstructuredContent(), w.options.patchType)
			if err == nil && len(p) > 0 {
				patches = append(patches, hooksv1.GeneratePatchesResponseItem{UID: in.UID, PatchType: w.options.patchType, Patch: p})
			}
			return err
		})
		if !goOn {
			break
		}
	}
	resp.Items = nil
	if len(w.errs) > 0 {
		return errors.Join(w.errs...)
	}
	resp.Items = patches
	return nil
}

// ValidateTopology calls visit with every template of req, in their order. Returned
// errors refuse the topology; changes have no effect.
func ValidateTopology(ctx context.Context, req *hooksv1.ValidateTopologyRequest, visit Visit, opts ...Option) error {
	w, err := newWalk(visit, opts, req.Variables)
	if err != nil {
		return err
	}
	for i, in := range req.Items {
		if in == nil {
			in = &hooksv1.ValidateTopologyRequestItem{}
		}
		it := item{index: i, holder: in.HolderReference, object: &in.Object, variables: in.Variables}
		if !w.step(ctx, it, func(t *Template, _ map[string]any) error { return w.call(ctx, t) }) {
			break
		}
	}
	return errors.Join(w.errs...)
}

// walk is one walk over the items of one request.
type walk struct {
	visit   Visit
	options options
	cluster layer // the variables of the whole cluster
	errs    []error
}

type item struct {
	index     int
	holder    hooksv1.HolderReference
	object    *apiruntime.RawExtension
	variables []hooksv1.Variable
}

func newWalk(visit Visit, opts []Option, variables []hooksv1.Variable) (*walk, error) {
	cluster, err := newLayer(variables)
	if err != nil {
		return nil, err
	}
	return &walk{visit: visit, options: complete(opts), cluster: cluster}, nil
}

// step reads an item and visits it. It records the error and reports whether to continue.
func (w *walk) step(ctx context.Context, it item, look func(t *Template, before map[string]any) error) bool {
	if err := context.Cause(ctx); err != nil {
		w.errs = append(w.errs, fmt.Errorf("item %d: %w", it.index, err))
		return false
	}
	kind := "template"
	before, err := toObject("object", it.object)
	if err == nil && before == nil {
		err = errors.New("has no object")
	}
	if err == nil {
		t := &Template{Holder: Holder{it.holder}, Object: &unstructured.Unstructured{Object: apiruntime.DeepCopyJSON(before)}}
		if kind = t.Object.GetKind(); kind == "" || t.Object.GetAPIVersion() == "" {
			kind, err = "template", errors.New("object has no kind or no apiVersion")
		} else if err = w.resolve(t, it.variables); err == nil {
			err = look(t, before)
		}
	}
	if err == nil {
		return true
	}
	w.errs = append(w.errs, fmt.Errorf("item %d (%s of %s): %w", it.index, kind, Holder{it.holder}, err))
	return !w.options.failFast
}

// resolve sets the variables of a template.
func (w *walk) resolve(t *Template, own []hooksv1.Variable) error {
	l, err := newLayer(own)
	if err != nil {
		return err
	}
	t.Variables = Variables{layers: []layer{w.cluster, l}}
	t.Builtins, err = Builtins(t.Variables)
	return err
}

// call visits a template; a panic is an error that names the line.
func (w *walk) call(ctx context.Context, t *Template) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic%s: %v", origin(), r)
		}
	}()
	if err := w.visit(ctx, t); err != nil {
		return err
	}
	if t.Object == nil || t.Object.Object == nil {
		return errors.New("visit took the object away")
	}
	return nil
}

// origin is the location of the panic under recovery, such as " at hooks.go:42".
func origin() string {
	pcs := make([]uintptr, 16)
	frames, panicked := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)]), false
	for {
		f, more := frames.Next()
		inside := strings.HasPrefix(f.Function, "runtime.")
		if panicked && !inside {
			return fmt.Sprintf(" at %s:%d", filepath.Base(f.File), f.Line)
		}
		panicked = panicked || f.Function == "runtime.gopanic"
		if !more {
			return ""
		}
	}
}

// sortedKeys are the keys of both, each once.
func sortedKeys(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return sorted(all)
}
