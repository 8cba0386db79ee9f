// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

func TestAuthoritySecret(t *testing.T) {
	t.Parallel()
	config := &runtimev1.ExtensionConfig{}
	if key, err := AuthoritySecret(config); key != (types.NamespacedName{}) || err != nil {
		t.Errorf("without the annotation: %v, %v", key, err)
	}
	config.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: "ns/ca"}
	if key, err := AuthoritySecret(config); key != (types.NamespacedName{Namespace: "ns", Name: "ca"}) || err != nil {
		t.Errorf("with the annotation: %v, %v", key, err)
	}
	config.Annotations[runtimev1.InjectCAFromSecretAnnotation] = "ca"
	if key, err := AuthoritySecret(config); key != (types.NamespacedName{}) || err == nil {
		t.Errorf("with half of a name: %v, %v", key, err)
	}
}

func TestAuthority(t *testing.T) {
	t.Parallel()
	const named = "Secret ns/ca, named by annotation runtime.cluster.x-k8s.io/inject-ca-from-secret,"
	for want, secret := range map[string]*corev1.Secret{
		named + " does not exist: create it, or correct the annotation": nil,
		named + " has no key ca.crt":                                    {Data: map[string][]byte{"tls.key": []byte("secret")}},
	} {
		if bundle, err := Authority(types.NamespacedName{Namespace: "ns", Name: "ca"}, secret); err == nil || err.Error() != want || bundle != nil {
			t.Errorf("bundle %q, error %v, want %s", bundle, err, want)
		}
	}
	if bundle, err := Authority(types.NamespacedName{}, &corev1.Secret{Data: map[string][]byte{"ca.crt": []byte("no certificate")}}); err == nil || bundle != nil {
		t.Errorf("bundle %q, error %v of what is no certificate", bundle, err)
	}
}
