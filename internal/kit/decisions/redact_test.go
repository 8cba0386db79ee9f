// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

func TestRedactReplacesSecrets(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 300)
	for name, text := range map[string]string{
		"content of a file":         `{"files":[{"path":"/a","content":"SECRET"}]}`,
		"password of a user":        `{"users":[{"name":"root","passwd":"SECRET","sshAuthorizedKeys":["SECRET"]}]}`,
		"token of discovery":        `{"discovery":{"bootstrapToken":{"token":"SECRET"}}}`,
		"command of the bootstrap":  `{"preKubeadmCommands":["login SECRET"]}`,
		"content of a Secret":       `{"kind":"Secret","data":{"a":"SECRET"},"stringData":{"b":"SECRET"}}`,
		"environment":               `{"env":[{"name":"A","value":"SECRET"}],"extraEnvs":[{"name":"A","value":"SECRET"}]}`,
		"argument":                  `{"extraArgs":[{"name":"a","value":"SECRET"}]}`,
		"variable":                  `{"variables":[{"name":"a","value":{"user":{"b":["SECRET"]}}}]}`,
		"variable of a group":       `{"variables":{"overrides":[{"name":"a","value":"SECRET"}]}}`,
		"field of a provider":       `{"spec":{"adminPassword":"SECRET","apiTokens":["SECRET"],"clientSecret":{"value":"SECRET"},"awsCredentials":"SECRET"}}`,
		"kubeconfig":                `{"kubeConfig":{"user":{"exec":{"env":[{"name":"a","value":"SECRET"}]},"authProvider":{"config":{"a":"SECRET"}}}}}`,
		"annotation with an object": `{"metadata":{"annotations":{"last-applied":"SECRET ` + long + `"}}}`,
		"annotation of kubectl":     `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"users\":[{\"passwd\":\"SECRET\"}]}}"}}}`,
		"managed fields":            `{"metadata":{"managedFields":[{"manager":"SECRET"}]}}`,
		"long text":                 `{"script":"SECRET ` + long + `"}`,
		"private key":               `{"any":"-----BEGIN EC PRIVATE KEY-----\nSECRET"}`,
		"kubeconfig as a text":      `{"any":"users:\n- user:\n    client-key-data: SECRET"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New()
			got := r.Redact([]byte(text))
			if strings.Contains(string(got), "SECRET") || !json.Valid(got) {
				t.Errorf("%s", got)
			}
			if again := r.Redact(got); string(again) != string(got) {
				t.Errorf("redacted twice: %s, once: %s", again, got)
			}
			if other := New().Redact([]byte(text)); name != "managed fields" && string(other) == string(got) {
				t.Errorf("the hash has no key: %s", other)
			}
		})
	}
}

func TestRedactKeepsOtherValues(t *testing.T) {
	t.Parallel()
	const text = `{"annotations":{"a":"b"},"dataSecretName":"demo","generation":9007199254740993,"message":"Waiting for Secret demo-ca","secretRef":"demo","version":"v1.36.3"}`
	if diff := cmp.Diff(text, string(New().Redact([]byte(text)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRedactHidesEqualityOnlyFromOthers: within a recorder, equal secrets have equal hashes,
// so that a change of one shows.
func TestRedactHidesEqualityOnlyFromOthers(t *testing.T) {
	t.Parallel()
	r := New()
	values := map[string]string{}
	for _, secret := range []string{"a", "a ", "b", "ä", strings.Repeat("x", 10000)} {
		text, err := json.Marshal(map[string]string{"token": secret})
		if err != nil {
			t.Fatal(err)
		}
		got := string(r.Redact(text))
		if other, taken := values[got]; taken {
			t.Errorf("%q and %q are both %s", secret, other, got)
		}
		if again := string(r.Redact(text)); again != got {
			t.Errorf("%q is %s, then %s", secret, got, again)
		}
		values[got] = secret
	}
	for _, text := range []string{`{"token":""}`, `{"token":null}`, `{"token":true}`, `{"token":[]}`} {
		if got := string(r.Redact([]byte(text))); got != text {
			t.Errorf("%s, which holds no secret, is %s", text, got)
		}
	}
}

func TestRedactKeepsFormOfTokens(t *testing.T) {
	t.Parallel()
	before := bootstrapv1.BootstrapToken{Token: &bootstrapv1.BootstrapTokenString{ID: "abcdef", Secret: "0123456789abcdef"}}
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	var after bootstrapv1.BootstrapToken
	if err := json.Unmarshal(New().Redact(text), &after); err != nil || *after.Token == *before.Token {
		t.Errorf("token %v (%v)", after.Token, err)
	}
}

func FuzzRedact(f *testing.F) {
	for _, seed := range []string{`{"token":"a"}`, `[1,null,{"env":[{"value":{}}],"annotations":[]}]`, `{"variables":[1,{"value":null}]}`, `"`} {
		f.Add(seed)
	}
	r := New()
	f.Fuzz(func(t *testing.T, text string) {
		got := r.Redact([]byte(text))
		if got != nil && !json.Valid(got) {
			t.Errorf("%q is no JSON", got)
		}
		Lasting(got)
	})
}
