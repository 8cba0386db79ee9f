// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// disturb changes the object as other writers do: not at all, or once or twice. It
// returns what it did.
func (l *trial) disturb(ctx context.Context) string {
	did := []string{"undisturbed"}
	for n := pick(l.r, 0, 0, 1, 1, 2); n > 0; n-- {
		version := 0
		if len(l.sub.types) > 1 && l.r.IntN(10) == 0 {
			version = 1
		}
		live, err := l.get(ctx, version)
		if err != nil {
			continue
		}
		what, r := l.disturbance(version, live)
		if answer, code, err := l.send(ctx, version, r); err == nil && code <= http.StatusCreated {
			did = append(did, what)
			if !strings.HasPrefix(r.Path, "/") {
				l.seen, l.at = answer, version
			} else {
				l.seen = nil
			}
		}
	}
	return strings.Join(did, ", ")
}

func (l *trial) disturbance(version int, live map[string]any) (what string, _ Request) {
	what = pick(l.r, "apply", "apply", "force", "merge", "merge", "merge", "put", "put", "status", "metadata", "wipe")
	if what == "wipe" && l.r.IntN(4) > 0 {
		what = "merge"
	}
	patch := Request{Method: http.MethodPatch, Type: asMerge}
	switch what {
	case "apply", "force":
		patch.Type, patch.Query = asApply, "fieldManager="+pick(l.r, "other", "third")
		if what == "force" {
			patch.Query += "&force=true"
		}
		patch.Body = l.stamp(version, l.part(live))
	case "merge":
		patch.Query, patch.Body = "fieldManager="+pick(l.r, "editor", "editor2"), l.thin(l.part(live))
	case "put":
		next := runtime.DeepCopyJSON(live)
		next["spec"] = l.sub.source.change(l.r, map[string]any{"metadata": map[string]any{}, "spec": live["spec"]})["spec"]
		return what, Request{Method: http.MethodPut, Type: asJSON, Query: "fieldManager=editor", Body: next}
	case "status":
		patch.Path, patch.Query = "/status", "fieldManager=controller"
		patch.Body = map[string]any{"status": map[string]any{"observedGeneration": int64(l.r.IntN(9))}}
	case "metadata":
		patch.Query = "fieldManager=editor"
		patch.Body = decode(pick(l.r, `{"metadata":{"labels":{"owned":"x"}}}`, `{"metadata":{"labels":{"theirs":"x"}}}`, `{"metadata":{"labels":null}}`, `{"metadata":{"annotations":{"c&d":"q"}}}`))
	case "wipe":
		patch.Body = decode(`{"metadata":{"managedFields":[{}]}}`)
	}
	return what, patch
}

// part is an object that another manager might want.
func (l *trial) part(live map[string]any) map[string]any {
	switch l.r.IntN(3) {
	case 0:
		return l.sub.source.make(l.r)
	case 1:
		return l.sub.source.change(l.r, l.wanted)
	}
	return map[string]any{"metadata": map[string]any{}, "spec": runtime.DeepCopyJSONValue(live["spec"])} // all there is
}

// thin leaves a few fields of a spec, some of them to be removed.
func (l *trial) thin(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	for _, k := range sorted(spec) {
		if l.r.IntN(4) > 0 {
			delete(spec, k)
		} else if l.r.IntN(4) == 0 {
			spec[k] = nil
		}
	}
	return object
}
