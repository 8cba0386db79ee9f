// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// itemOf is the item of an object.
func itemOf(obj *unstructured.Unstructured) Item {
	k := Kind{GroupVersionKind: obj.GroupVersionKind(), Resource: strings.ToLower(obj.GetKind()) + "s", Namespaced: obj.GetNamespace() != ""}
	return Item{Kind: k, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}
}

func TestMayReplaceRefusesWhatIsInUse(t *testing.T) {
	t.Parallel()
	mark := func(operation string) string {
		return fmt.Sprintf("{metadata: {annotations: {%s: '{\"operation\":\"%s\",\"uid\":\"u\"}'}}}", Annotation, operation)
	}
	for name, tc := range map[string]struct{ object, rest, want string }{
		"a Secret":                   {"Secret ns/s", "", ""},
		"a copy of this move":        {"Cluster ns/c", mark("mine"), ""},
		"a copy of another move":     {"Secret ns/s", mark("other"), "Secret ns/s is part of another move, operation other: finish that, or roll it back"},
		"a mark that is no JSON":     {"Secret ns/s", "{metadata: {annotations: {" + Annotation + ": x}}}", ""},
		"a Cluster that runs":        {"Cluster ns/c", "", "there is a Cluster ns/c already, which is not paused: both sides would look after it; delete or pause the one that is not meant"},
		"a Cluster that is paused":   {"Cluster ns/c", "spec: {paused: true}", ""},
		"a class":                    {"ClusterClass ns/k", "", ""},
		"one that is being deleted":  {"Secret ns/s", "metadata: {deletionTimestamp: '2026-08-01T12:00:00Z'}", "Secret ns/s is being deleted there: wait until it is gone"},
		"a copy that is deleted too": {"Cluster ns/c", "{spec: {paused: true}, metadata: {deletionTimestamp: '2026-08-01T12:00:00Z'}}", "Cluster ns/c is being deleted there: wait until it is gone"},
	} {
		obj := object(t, tc.object, tc.rest)
		got := ""
		if err := MayReplace(itemOf(obj), obj, "mine"); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestRightsCoverWhatAMoveDoes: nothing is written at the source to what stays there.
func TestRightsCoverWhatAMoveDoes(t *testing.T) {
	t.Parallel()
	machine, class := itemOf(object(t, "Machine ns/m", "")), itemOf(object(t, "ClusterClass other/k", ""))
	class.Keep = "another Cluster uses it"
	p := &Plan{Items: []Item{machine, class, machine}}
	var got []string
	for _, r := range p.Rights("ns") {
		side := "source"
		if r.AtTarget {
			side = "target"
		}
		got = append(got, fmt.Sprintf("%s: %s %s in %s", side, r.Verb, r.Kind, r.Namespace))
	}
	var want []string
	add := func(what string, verbs ...string) {
		for _, verb := range verbs {
			want = append(want, strings.Replace(what, "%", verb, 1))
		}
	}
	for _, journal := range []string{"source: % configmaps in ns", "target: % configmaps in ns", "target: % secrets in ns"} {
		add(journal, "get", "create", "update", "delete")
	}
	add("source: % machines.cluster.x-k8s.io in ns", "patch", "delete")
	for _, kind := range []string{"machines.cluster.x-k8s.io in ns", "clusterclasss.cluster.x-k8s.io in other"} {
		add("target: % "+kind, "list", "create", "update", "patch", "delete")
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDroppedAreItemsThatMoveNoLonger(t *testing.T) {
	t.Parallel()
	item := func(uid types.UID, keep string) Item { return Item{Name: string(uid), UID: uid, Keep: keep} }
	before := &Plan{Items: []Item{item("moves", ""), item("is gone", ""), item("stays", ""), item("stayed", "x"), item("stayed and is gone", "x"), item("moves now", "x")}}
	next := &Plan{Items: []Item{item("moves", ""), item("stays", "y"), item("stayed", "y"), item("moves now", ""), item("new", "")}}
	names := func(p *Plan) (all []string) {
		for _, i := range p.Items {
			all = append(all, i.Name)
		}
		return all
	}
	stay, left := before.Dropped(next)
	if got, want := names(stay), []string{"is gone", "stays"}; !slices.Equal(got, want) {
		t.Errorf("stay: %q, want %q", got, want)
	}
	if got, want := names(left), []string{"is gone", "stayed and is gone"}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
}

// TestPauseIsUndoneByItsOpposite, by the patch of the other direction.
func TestPauseIsUndoneByItsOpposite(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"Cluster":      "map[spec:map[paused:true]] map[spec:map[paused:<nil>]]",
		"ClusterClass": "map[metadata:map[annotations:map[cluster.x-k8s.io/paused:true]]] map[metadata:map[annotations:map[cluster.x-k8s.io/paused:<nil>]]]",
	} {
		i := itemOf(object(t, kind+" ns/c", ""))
		if got := fmt.Sprint(Pause(i, true), " ", Pause(i, false)); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

func TestPackedPlanIsReadAgain(t *testing.T) {
	t.Parallel()
	item := itemOf(object(t, "Machine ns/m", ""))
	item.Group, item.Keep, item.Global = 3, "x", true
	p := &Plan{Items: []Item{item, {Kind: Kind{Move: true, Hierarchy: true}, Name: "n"}}, Left: []Left{{"a", "b"}}}
	packed, err := Pack(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Items, got.Items); diff != "" {
		t.Errorf("(-packed +unpacked):\n%s", diff)
	}
	zipped := func(text string) string {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		if _, err := zip.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := zip.Close(); err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(out.Bytes())
	}
	for name, damaged := range map[string]string{
		"nothing": "", "no base64": "%", "no gzip": base64.StdEncoding.EncodeToString([]byte("text")), "half": packed[:len(packed)/2],
		"no JSON": zipped("{"), "another form": zipped(`{"items": "x"}`),
	} {
		if got, err := Unpack(damaged); err == nil {
			t.Errorf("%s: unpacked as %v", name, got)
		}
	}
}

func TestPackRefusesWhatAConfigMapCannotHold(t *testing.T) {
	t.Parallel()
	random, p := rand.New(rand.NewPCG(1, 2)), &Plan{}
	for range 60_000 {
		uid := types.UID(fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64()))
		p.Items = append(p.Items, Item{Name: "m", UID: uid})
	}
	if _, err := Pack(p); err == nil || !strings.Contains(err.Error(), "60000 objects are too many for one move") {
		t.Errorf("error %v", err)
	}
}

func TestKindOfReadsTheStoredVersion(t *testing.T) {
	t.Parallel()
	const spec = "spec: {group: x.io, scope: Namespaced, names: {kind: Host, plural: hosts}, versions: "
	for name, tc := range map[string]struct{ crd, want string }{
		"one version":       {"{" + spec + "[{name: v1, storage: true}]}}", "x.io/v1 Host hosts, namespaced true, move false, hierarchy false"},
		"the second stored": {"{" + spec + "[{name: v1, storage: false}, {name: v2, storage: true}]}}", "x.io/v2 Host hosts, namespaced true, move false, hierarchy false"},
		"versions unknown":  {"{" + spec + "[x]}}", "x.io/ Host hosts, namespaced true, move false, hierarchy false"},
		"of the cluster":    {"{spec: {group: x.io, scope: Cluster, names: {kind: Zone, plural: zones}, versions: [{name: v1, storage: true}]}}", "x.io/v1 Zone zones, namespaced false, move false, hierarchy false"},
		"with labels":       {"{metadata: {labels: {clusterctl.cluster.x-k8s.io/move: '', clusterctl.cluster.x-k8s.io/move-hierarchy: ''}}, " + spec + "[{name: v1, storage: true}]}}", "x.io/v1 Host hosts, namespaced true, move true, hierarchy true"},
	} {
		k := KindOf(object(t, "CustomResourceDefinition x", tc.crd))
		if got := fmt.Sprintf("%s/%s %s %s, namespaced %t, move %t, hierarchy %t", k.Group, k.Version, k.Kind, k.Resource, k.Namespaced, k.Move, k.Hierarchy); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestPlanIsShownInItsOrder(t *testing.T) {
	t.Parallel()
	cluster, machine := itemOf(object(t, "Cluster ns/c", "")), itemOf(object(t, "Machine ns/m", ""))
	machine.Group, machine.Keep = 1, "it is used"
	p := &Plan{Items: []Item{cluster, machine}, Left: []Left{{"Secret ns/s", "no owner"}}, Notes: []string{"n"}}
	want := "Step 1:\n  Cluster ns/c\nStep 2:\n  Machine ns/m (stays at the source too: it is used)\nLeft behind:\n  Secret ns/s: no owner\nNote: n\n"
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (&Plan{}).String(); got != "Nothing to move.\n" {
		t.Errorf("an empty plan: %q", got)
	}
}

// TestCopyShowsWhatWasRemoved: the server may add fields to a copy, so that only the mark
// shows that the original has lost one.
func TestCopyShowsWhatWasRemoved(t *testing.T) {
	t.Parallel()
	const text = "{data: {a: eA==, b: eA==}, metadata: {labels: {l: v}, finalizers: [f], annotations: {note: v}}, status: {phase: x}}"
	from := object(t, "Secret ns/s", text)
	uids := map[types.UID]types.UID{}
	copied, err := Copy(itemOf(from), from, Mark{Operation: "op"}, uids)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		fields    []string
		different bool
	}{
		"data": {[]string{"data", "b"}, true}, "a label": {[]string{"metadata", "labels", "l"}, true}, "an annotation": {[]string{"metadata", "annotations", "note"}, true},
		"the status": {[]string{"status"}, false}, "a finalizer": {[]string{"metadata", "finalizers"}, false}, "nothing": {[]string{"none"}, false},
	} {
		changed := object(t, "Secret ns/s", text)
		unstructured.RemoveNestedField(changed.Object, tc.fields...)
		want, err := Copy(itemOf(changed), changed, Mark{Operation: "op"}, uids)
		if err != nil {
			t.Fatal(err)
		}
		if got := Differences(want, copied); (len(got) > 0) != tc.different {
			t.Errorf("%s was removed: differences %q", name, got)
		}
	}
	broken := object(t, "Cluster ns/c", "spec: text")
	if _, err := Copy(itemOf(broken), broken, Mark{}, uids); err == nil || !strings.Contains(err.Error(), "Cluster ns/c") {
		t.Errorf("a Cluster whose spec is text: error %v", err)
	}
}
