// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestEnvsubst(t *testing.T) {
	tests := map[string]struct {
		in      string
		env     map[string]string
		want    string
		missing []string
	}{
		"a plain variable":                        {in: "name: ${NAME}", env: map[string]string{"NAME": "demo"}, want: "name: demo"},
		"blanks inside the braces":                {in: "${ NAME }", env: map[string]string{"NAME": "demo"}, want: "demo"},
		"a default for an unset variable":         {in: "${N:=1} ${M=2} ${K:-3}", want: "1 2 3"},
		"a default for an empty variable":         {in: "${N:=1}", env: map[string]string{"N": ""}, want: "1"},
		"a value wins over the default":           {in: "${N:=1}", env: map[string]string{"N": "5"}, want: "5"},
		"a default that is a variable":            {in: "${A:=${B}}", env: map[string]string{"B": "b"}, want: "b"},
		"all missing variables are named, sorted": {in: "${B} ${A} ${C:=x}", missing: []string{"A", "B"}},
		"a default elsewhere does not fill a gap": {in: "${A:=x} ${A}", missing: []string{"A"}},
		"other functions of the shell":            {in: "${A^^} ${A/de/re}", env: map[string]string{"A": "demo"}, want: "DEMO remo"},
		"an empty value is a value":               {in: "[${A}]", env: map[string]string{"A": ""}, want: "[]"},
		"jinja's double braces are left in peace": {in: "'{{ ds.meta_data.local_hostname }}'", want: "'{{ ds.meta_data.local_hostname }}'"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Envsubst{}.Process([]byte(tc.in), func(n string) (string, bool) { v, ok := tc.env[n]; return v, ok })
			var missing *MissingError
			if errors.As(err, &missing) {
				if diff := cmp.Diff(tc.missing, missing.Names); diff != "" {
					t.Errorf("missing (-want +got):\n%s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want || tc.missing != nil {
				t.Errorf("got %q, want %q, missing %v", got, tc.want, tc.missing)
			}
		})
	}
}

func TestVariablesTellsTheDefaults(t *testing.T) {
	got, err := Envsubst{}.Variables([]byte("${A} ${B:=1} ${C:=${D:-x}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*string{"A": nil, "B": new("1"), "C": new("${D}"), "D": new("x")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestObjects(t *testing.T) {
	tests := map[string]struct {
		in      string
		want    []string
		wantErr string
	}{
		"documents and comments": {in: "# only words\n---\napiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: B\nmetadata: {name: b}\n", want: []string{"A a", "B b"}},
		"a list is taken apart":  {in: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n", want: []string{"A a"}},
		"no kind":                {in: "a: b", wantErr: "document 1 has no apiVersion and kind"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := Objects([]byte(tc.in))
			if err != nil || tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind()+" "+o.GetName())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocalTemplateNeedsThreeVariables(t *testing.T) {
	_, err := Envsubst{}.Process(Local(), func(string) (string, bool) { return "", false })
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("error %v, want the missing variables", err)
	}
	if diff := cmp.Diff([]string{"CLUSTER_NAME", "KUBERNETES_VERSION", "NAMESPACE"}, missing.Names); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

// An empty algorithm would be RSA, which costs more than all else that a
// simulated cluster does.
func TestLocalTemplateAsksForKeysThatAreCheapToMake(t *testing.T) {
	doc, err := Envsubst{}.Process(Local(), func(string) (string, bool) { return "v1.36.3", true })
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Objects(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "KubeadmControlPlane" {
			continue
		}
		got, _, err := unstructured.NestedString(o.Object, "spec", "kubeadmConfigSpec", "clusterConfiguration", "encryptionAlgorithm")
		if err != nil || got != "ECDSA-P256" {
			t.Errorf("encryptionAlgorithm is %q, %v", got, err)
		}
	}
}
