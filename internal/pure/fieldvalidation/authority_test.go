// SPDX-License-Identifier: Apache-2.0

package fieldvalidation

import (
	"encoding/pem"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

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
