// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

func TestDifferencesNameChangedFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from, to string
		want     []planv1.Field
	}{
		"none":                {from: "{kind: A, spec: {a: 1}}", to: "{kind: A, spec: {a: 1}}"},
		"status":              {from: "{status: {a: 1}}", to: "{status: {a: 2}}"},
		"kind and apiVersion": {from: "{kind: A, apiVersion: v1}", to: "{kind: A, apiVersion: v2}"},
		"what every write changes": {
			from: "{metadata: {uid: a, generation: 1, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z', managedFields: [{manager: a}], selfLink: a}}",
			to:   "{metadata: {uid: b, generation: 2, resourceVersion: '2', creationTimestamp: '2026-01-02T00:00:00Z', managedFields: [{manager: b}]}}",
		},
		"the same names in spec": {
			from: "{spec: {generation: 1, uid: a}}", to: "{spec: {generation: 2, uid: b}}",
			want: []planv1.Field{{Path: "spec.generation", From: "1", To: "2"}, {Path: "spec.uid", From: "a", To: "b"}},
		},
		"nested, by name": {
			from: "{spec: {b: {x: 1, z: 1}, a: true}}", to: "{spec: {b: {x: 2, z: 1}, a: false}}",
			want: []planv1.Field{{Path: "spec.a", From: "true", To: "false"}, {Path: "spec.b.x", From: "1", To: "2"}},
		},
		"set and removed": {
			from: "{spec: {a: {x: 1}}}", to: "{spec: {b: {c: {z: 2}}}}",
			want: []planv1.Field{{Path: "spec.a.x", From: "1"}, {Path: "spec.b.c.z", To: "2"}},
		},
		"names with dots": {
			from: "{metadata: {labels: {cluster.x-k8s.io/a: x}}}", to: "{metadata: {labels: {cluster.x-k8s.io/a: v, b: z}}}",
			want: []planv1.Field{{Path: "metadata.labels.b", To: "z"}, {Path: "metadata.labels[cluster.x-k8s.io/a]", From: "x", To: "v"}},
		},
		"lists by place": {
			from: "{spec: {list: [1, 2]}}", to: "{spec: {list: [1, 3]}}",
			want: []planv1.Field{{Path: "spec.list[1]", From: "2", To: "3"}},
		},
		"another type": {
			from: "{spec: {a: {b: 1}}}", to: "{spec: {a: text}}",
			want: []planv1.Field{{Path: "spec.a", From: "map[b:1]", To: "text"}},
		},
		"one line": {
			from: "{spec: {}}", to: `{spec: {a: "x\ny"}}`,
			want: []planv1.Field{{Path: "spec.a", To: "x y"}},
		},
		"parts other than spec": {
			from: "{kind: ConfigMap, data: {a: x}}", to: "{kind: ConfigMap, data: {a: v}}",
			want: []planv1.Field{{Path: "data.a", From: "x", To: "v"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, compareJSON(parse(t, tc.from), parse(t, tc.to))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var of map[string]any
	if err := yaml.Unmarshal([]byte(text), &of); err != nil {
		t.Fatal(err)
	}
	return of
}

// TestDifferencesShowNoSecretValue changes each part of a Secret in which a value
// can be: it is in no part of the output.
func TestDifferencesShowNoSecretValue(t *testing.T) {
	t.Parallel()
	const before, after = "c2VjcmV0", "cGFzc3dvcmQ="
	of := func(value string) map[string]any {
		return parse(t, strings.ReplaceAll(`
kind: Secret
metadata:
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data":{"a":"VALUE"}}'}
  labels: {a: VALUE}
data: {a: VALUE}
stringData: {a: VALUE}
immutable: VALUE
`, "VALUE", value))
	}
	var unset map[string]any
	for name, got := range map[string][]planv1.Field{
		"changed": compareJSON(of(before), of(after)),
		"created": compareJSON(unset, of(after)),
		"deleted": compareJSON(of(before), unset),
	} {
		if text := fmt.Sprint(got); strings.Contains(text, before) || strings.Contains(text, after) {
			t.Errorf("%s: %s", name, text)
		}
		var paths []string
		for _, f := range got {
			paths = append(paths, f.Path)
		}
		want := []string{"data", "immutable", "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]", "metadata.labels.a", "stringData"}
		if diff := cmp.Diff(want, paths); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestFieldsOfASecretWithoutKind(t *testing.T) {
	t.Parallel()
	from, to := &corev1.Secret{Data: map[string][]byte{"a": []byte("x")}}, &corev1.Secret{Data: map[string][]byte{"a": []byte("y")}}
	if diff := cmp.Diff([]planv1.Field{{Path: "data"}}, Fields(from, to)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDifferencesCutLongValues(t *testing.T) {
	t.Parallel()
	for _, value := range []string{strings.Repeat("a", maxValue), strings.Repeat("a", maxValue+1), strings.Repeat("ä", maxValue), "a" + strings.Repeat("ä", maxValue), strings.Repeat("界", maxValue), "ab" + strings.Repeat("🙂", maxValue)} {
		got := compareJSON(map[string]any{}, map[string]any{"spec": map[string]any{"a": value}})[0].To
		kept, cut := strings.CutSuffix(got, "…")
		if cut != (len(value) > maxValue) || len(kept) > maxValue || len(kept) < min(len(value), maxValue-utf8.UTFMax) || !utf8.ValidString(got) || !strings.HasPrefix(value, kept) {
			t.Errorf("%q of %d bytes: got %q", value[:10], len(value), got)
		}
	}
}

func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	spec := map[string]any{}
	for i := range 10 * MaxFields {
		spec[fmt.Sprintf("f%04d", i)] = int64(i)
	}
	got := compareJSON(map[string]any{}, map[string]any{"metadata": map[string]any{"labels": spec}, "spec": spec})
	if len(got) != MaxFields || got[0].Path != "metadata.labels.f0000" {
		t.Errorf("got %d fields, the first is %v", len(got), got[0])
	}
}

func TestFieldsAreWithoutStatus(t *testing.T) {
	t.Parallel()
	from, to := machine("a"), machine("a", unavailable, timeout(5))
	to.Status.Phase = "Running"
	if diff := cmp.Diff([]planv1.Field{{Path: "spec.deletion.nodeDrainTimeoutSeconds", To: "5"}}, Fields(from, to)); diff != "" {
		t.Errorf("Fields (-want +got)\n%s", diff)
	}
	to.Status.Conditions = from.Status.Conditions
	if diff := cmp.Diff([]planv1.Field{{Path: "status.phase", To: "Running"}}, StatusFields(from, to)); diff != "" {
		t.Errorf("StatusFields (-want +got)\n%s", diff)
	}
	if got := StatusFields(&clusterv1.Machine{}, &clusterv1.Machine{}); got != nil {
		t.Errorf("no difference: %v", got)
	}
}

// compareJSON is differences of objects that have their kind among their fields.
func compareJSON(from, to map[string]any) []planv1.Field {
	return differences(from, to, from["kind"] == "Secret" || to["kind"] == "Secret")
}

// TestFieldsShowNoSecretsOfUsers: bootstrap tokens and files are in objects that are no
// Secrets.
func TestFieldsShowNoSecretsOfUsers(t *testing.T) {
	t.Parallel()
	of := func(secret string) map[string]any {
		return parse(t, fmt.Sprintf(`{"kind": "KubeadmConfig", "spec": {
			"files": [{"path": "/etc/key", "content": %[1]q}],
			"users": [{"name": "root", "passwd": %[1]q}],
			"joinConfiguration": {"discovery": {"bootstrapToken": {"token": %[1]q}}},
			"preKubeadmCommands": [%[1]q]}}`, secret))
	}
	want := []planv1.Field{
		{Path: "spec.files[/etc/key].content"},
		{Path: "spec.joinConfiguration.discovery.bootstrapToken.token"},
		{Path: "spec.preKubeadmCommands[0]"},
		{Path: "spec.users[root].passwd"},
	}
	if diff := cmp.Diff(want, compareJSON(of("swordfish"), of("password1"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestListsAreComparedByTheirKeys: a condition that changes among others is named.
func TestListsAreComparedByTheirKeys(t *testing.T) {
	t.Parallel()
	from := parse(t, `{"spec": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}], "plain": ["x", "y"]}}`)
	to := parse(t, `{"spec": {"conditions": [{"type": "B", "status": "False"}, {"type": "A", "status": "True"}], "plain": ["x", "z", "w"]}}`)
	want := []planv1.Field{
		{Path: "spec.conditions[B].status", From: "True", To: "False"},
		{Path: "spec.plain[1]", From: "y", To: "z"},
		{Path: "spec.plain[2]", To: "w"},
	}
	if diff := cmp.Diff(want, compareJSON(from, to)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
