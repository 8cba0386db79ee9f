// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

func TestAnAuthorityIsPutWhereOneBelongs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ obj, want string }{
		"webhooks": {
			"{kind: ValidatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {service: {name: s}}}, {name: b, clientConfig: {caBundle: old}}, {name: c}]}",
			"{kind: ValidatingWebhookConfiguration, webhooks: [{name: a, clientConfig: {service: {name: s}, caBundle: Q0E=}}, {name: b, clientConfig: {caBundle: Q0E=}}, {name: c}]}",
		},
		"no webhooks": {"{kind: MutatingWebhookConfiguration}", ""},
		"a conversion": {
			"{kind: CustomResourceDefinition, spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: s}}}}}}",
			"{kind: CustomResourceDefinition, spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: s}, caBundle: Q0E=}}}}}",
		},
		"no conversion":                {"{kind: CustomResourceDefinition, spec: {conversion: {strategy: None}}}", ""},
		"a conversion without address": {"{kind: CustomResourceDefinition, spec: {conversion: {strategy: Webhook}}}", ""},
		"an API server": {
			"{kind: APIService, spec: {service: {name: s}}}", "{kind: APIService, spec: {service: {name: s}, caBundle: Q0E=}}",
		},
		"an API server of its own":          {"{kind: APIService, spec: {group: x}}", ""},
		"an API server that is not checked": {"{kind: APIService, spec: {service: {name: s}, insecureSkipTLSVerify: true}}", ""},
		"what is there already":             {"{kind: APIService, spec: {service: {name: s}, caBundle: Q0E=}}", ""},
		"nonsense":                          {"{kind: ValidatingWebhookConfiguration, webhooks: [x, {clientConfig: y}]}", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, want := map[string]any{}, map[string]any{}
			if tc.want == "" {
				want = got
			} else if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.obj), &got); err != nil {
				t.Fatal(err)
			}
			if changed := Inject(got, []byte("CA")); changed != (tc.want != "") {
				t.Errorf("changed: %v", changed)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhereAnAuthorityComesFrom(t *testing.T) {
	t.Parallel()
	ns := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	tests := map[string]struct {
		annotations map[string]string
		want        Source
		wanted      bool
		err         string
	}{
		"no request":            {map[string]string{"x": "y"}, Source{}, false, ""},
		"a Certificate":         {map[string]string{certmanagerv1.InjectFromAnnotation: "ns/web"}, Source{Certificate: ns("web"), annotation: certmanagerv1.InjectFromAnnotation}, true, ""},
		"a Secret":              {map[string]string{certmanagerv1.InjectFromSecretAnnotation: "ns/web"}, Source{Secret: ns("web"), annotation: certmanagerv1.InjectFromSecretAnnotation}, true, ""},
		"the API server":        {map[string]string{certmanagerv1.InjectAPIServerAnnotation: "true"}, Source{APIServer: true}, true, ""},
		"not the API server":    {map[string]string{certmanagerv1.InjectAPIServerAnnotation: "false"}, Source{}, false, ""},
		"a name without a half": {map[string]string{certmanagerv1.InjectFromAnnotation: "web"}, Source{}, true, "annotation cert-manager.io/inject-ca-from: "},
		"the first of several":  {map[string]string{certmanagerv1.InjectFromAnnotation: "ns/a", certmanagerv1.InjectFromSecretAnnotation: "ns/b"}, Source{Certificate: ns("a"), annotation: certmanagerv1.InjectFromAnnotation}, true, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := SourceOf(tc.annotations)
			if got != tc.want || Wanted(tc.annotations) != tc.wanted || (err == nil) != (tc.err == "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) {
				t.Errorf("got %+v, error %v; want %+v, %s", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestASecretSaysWhetherItsAuthorityMayBeTaken(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "ns", Name: "tls"}
	of := Source{Certificate: types.NamespacedName{Namespace: "ns", Name: "web"}, annotation: "a"}
	from := Source{Secret: key, annotation: "b"}
	tests := map[string]struct {
		source      Source
		annotations map[string]string
		data        string
		want        string
	}{
		"that of another Certificate": {of, map[string]string{certmanagerv1.CertificateNameAnnotation: "x"}, "x", "Secret ns/tls, for annotation a, is not that of Certificate ns/web"},
		"one that does not allow it":  {from, nil, "x", `Secret ns/tls, for annotation b, does not allow it: annotate it with cert-manager.io/allow-direct-injection: "true"`},
		"one without an authority":    {from, map[string]string{certmanagerv1.AllowInjectionAnnotation: "true"}, "", "Secret ns/tls, for annotation b, has no data at ca.crt"},
		"one with a key in its place": {from, map[string]string{certmanagerv1.AllowInjectionAnnotation: "true"}, "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----", "Secret ns/tls, for annotation b, has at ca.crt what is no authority: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := &corev1.Secret{Data: map[string][]byte{"ca.crt": []byte(tc.data)}}
			secret.Annotations = tc.annotations
			if bundle, err := tc.source.Authority(key, secret); err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "AA==") {
				t.Errorf("%s, error %v; want %s", bundle, err, tc.want)
			}
		})
	}
}

func TestIssuersSayWhatTheyCan(t *testing.T) {
	t.Parallel()
	some := &apiextensionsv1.JSON{Raw: []byte("{}")}
	tests := map[string]struct {
		spec certmanagerv1.IssuerSpec
		want string
	}{
		"self-signed":      {certmanagerv1.IssuerSpec{SelfSigned: &certmanagerv1.SelfSignedIssuer{}}, "True IsReady "},
		"an authority":     {certmanagerv1.IssuerSpec{CA: &certmanagerv1.CAIssuer{SecretName: "ca"}}, "True KeyPairVerified Signing CA verified"},
		"without a Secret": {certmanagerv1.IssuerSpec{CA: &certmanagerv1.CAIssuer{}}, "False InvalidIssuer spec.ca.secretName: there is none"},
		"nothing":          {certmanagerv1.IssuerSpec{}, "False InvalidIssuer spec has 0 of selfSigned and ca: give one"},
		"both":             {certmanagerv1.IssuerSpec{SelfSigned: &certmanagerv1.SelfSignedIssuer{}, CA: &certmanagerv1.CAIssuer{SecretName: "ca"}}, "False InvalidIssuer spec has 2 of selfSigned and ca: give one"},
		"ACME":             {certmanagerv1.IssuerSpec{ACME: some}, "False NotSupported issuers of kind acme are not honoured without cert-manager: give selfSigned or ca, or install cert-manager"},
		"others":           {certmanagerv1.IssuerSpec{Vault: some, Venafi: some}, "False NotSupported issuers of kind vault, venafi are not honoured without cert-manager: give selfSigned or ca, or install cert-manager"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := IssuerCondition(&tc.spec, CheckIssuer(&tc.spec))
			if got := string(c.Status) + " " + c.Reason + " " + c.Message; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
