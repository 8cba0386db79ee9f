// SPDX-License-Identifier: Apache-2.0

package fieldvalidation

import (
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

var at = field.NewPath("at")

func TestNormalVersion(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "1.34.0": "v1.34.0", "v1.34.0": "v1.34.0", "latest": "vlatest"} {
		if got := NormalVersion(in); got != want {
			t.Errorf("NormalVersion(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"": true, "v1.34.0": true, "v1.34.0-rc.1": true, "v1.34.0+build.1": true,
		"1.34.0": false, "v1.34": false, "v1.34.x": false, "v01.34.0": false, "latest": false, "v": false,
	} {
		if got := Version(at, version) == nil; got != want {
			t.Errorf("Version(%q) valid: %v, want %v", version, got, want)
		}
	}
}

func FuzzVersion(f *testing.F) {
	f.Add("v1.34.0-rc.1+b")
	f.Fuzz(func(t *testing.T, version string) {
		if normal := NormalVersion(version); normal != NormalVersion(normal) {
			t.Errorf("%q is normalised twice", version)
		}
		if errs := Version(at, version); errs == nil && version != "" && !strings.HasPrefix(version, "v") {
			t.Errorf("%q has no v", version)
		}
	})
}

func TestAsLabelValueFitsAndDistinguishesNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 100)
	for _, name := range []string{"short", long, long + "b"} {
		if errs := validation.IsValidLabelValue(AsLabelValue(name)); len(errs) > 0 {
			t.Errorf("%q: %v", AsLabelValue(name), errs)
		}
	}
	if got, want := AsLabelValue(long), "hash_Cgux2Q_z"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if AsLabelValue("short") != "short" || AsLabelValue(long) == AsLabelValue(long+"b") {
		t.Error("names that fit stay, others differ")
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		amount *intstr.IntOrString
		want   bool
	}{
		"none": {nil, true}, "a number": {new(intstr.FromInt32(3)), true}, "zero": {new(intstr.FromInt32(0)), true},
		"a percentage": {new(intstr.FromString("30%")), true}, "a negative number": {new(intstr.FromInt32(-1)), false},
		"a number in quotes": {new(intstr.FromString("3")), false}, "a word": {new(intstr.FromString("few")), false},
	} {
		if got := Amount(at, tc.amount) == nil; got != tc.want {
			t.Errorf("%s: valid %v, want %v", name, got, tc.want)
		}
	}
}

func TestMachineName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "",
		"{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}": "",
		"{{ .random }}":     "",
		"fixed":             "must contain {{ .random }}, so that no two machines have one name",
		"{{ .random":        "is no Go template: template: name:1: unclosed action",
		"{{ .who.name }}":   `can use .cluster.name, .machineSet.name and .random: template: name:1:7: executing "name" at <.who.name>: map has no entry for key "who"`,
		"{{ len .random }}": "must contain {{ .random }}, so that no two machines have one name",
	} {
		got := ""
		if errs := MachineName(at, text, "machineSet"); len(errs) > 0 {
			got = errs[0].Detail
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	if errs := MachineName(at, strings.Repeat("x", 300), "machineSet"); len(errs) != 1 || errs[0].Type != field.ErrorTypeTooLong {
		t.Errorf("a long template: %v", errs)
	}
}

func TestTaintsKeepOutOfOthersWay(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][2]bool{ // worker, control plane
		"example.com/gpu":                         {true, true},
		"node.kubernetes.io/out-of-service":       {true, true},
		"node.kubernetes.io/not-ready":            {false, false},
		"node.cloudprovider.kubernetes.io/x":      {false, false},
		"node.cluster.x-k8s.io/uninitialized":     {false, false},
		"node.cluster.x-k8s.io/outdated-revision": {false, false},
		"node-role.kubernetes.io/master":          {false, false},
		"node-role.kubernetes.io/control-plane":   {false, true},
	} {
		taints := []clusterv1.MachineTaint{{Key: key}}
		got := [2]bool{Taints(at, taints, false) == nil, Taints(at, taints, true) == nil}
		if got != want {
			t.Errorf("%s: allowed %v, want %v", key, got, want)
		}
	}
}

func TestSelectorsOfNothing(t *testing.T) {
	t.Parallel()
	if Selector(at, nil) != nil || !IsEmptySelector(metav1.LabelSelector{MatchLabels: map[string]string{}}) {
		t.Error("no selector is valid, and an empty map selects without condition")
	}
}

func TestCertificateBundle(t *testing.T) {
	t.Parallel()
	block := func(kind string) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("rubbish")})
	}
	tests := map[string]struct {
		bundle []byte
		want   string
	}{
		"nothing":        {nil, "holds no certificate in PEM form"},
		"text":           {[]byte("hello"), "holds no certificate in PEM form"},
		"a key":          {block("PRIVATE KEY"), `holds a PEM block of type "PRIVATE KEY": only certificates belong there`},
		"no certificate": {block("CERTIFICATE"), "certificate 1 cannot be read: x509: malformed certificate"},
		"too much":       {[]byte(strings.Repeat("x", maxBundle+1)), "has 51201 bytes, and may have 51200"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := CertificateBundle(tc.bundle); err == nil || err.Error() != tc.want {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestSecretKey(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]types.NamespacedName{
		"ns/name": {Namespace: "ns", Name: "name"}, "ns/a.b": {Namespace: "ns", Name: "a.b"},
		"": {}, "name": {}, "/name": {}, "ns/": {}, "a/b/c": {}, "a.b/c": {}, "ns/Name": {}, "ns/name ": {},
	} {
		got, err := SecretKey(text)
		if got != want || (err == nil) != (want.Name != "") {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
