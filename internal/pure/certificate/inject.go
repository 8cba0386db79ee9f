// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// Source is the source of the certificate authority to inject into an object: the first
// of these that is set. In the zero value there is none.
type Source struct {
	Certificate types.NamespacedName
	Secret      types.NamespacedName
	APIServer   bool
	annotation  string
}

// Wanted reports whether an object with these annotations requests the injection of an
// authority.
func Wanted(annotations map[string]string) bool {
	_, certificate := annotations[certmanagerv1.InjectFromAnnotation]
	_, secret := annotations[certmanagerv1.InjectFromSecretAnnotation]
	return certificate || secret || annotations[certmanagerv1.InjectAPIServerAnnotation] == "true"
}

// SourceOf parses the source of the authority for an object with these annotations.
func SourceOf(annotations map[string]string) (s Source, err error) {
	for _, a := range []struct {
		key string
		to  *types.NamespacedName
	}{{certmanagerv1.InjectFromAnnotation, &s.Certificate}, {certmanagerv1.InjectFromSecretAnnotation, &s.Secret}} {
		if value, ok := annotations[a.key]; ok {
			if *a.to, err = fieldvalidation.SecretKey(value); err != nil {
				return Source{}, fmt.Errorf("annotation %s: %w", a.key, err)
			}
			s.annotation = a.key
			return s, nil
		}
	}
	s.APIServer = annotations[certmanagerv1.InjectAPIServerAnnotation] == "true"
	return s, nil
}

// Authority returns the data to inject from a Secret: only certificates, which are
// public. A Secret permits it by an annotation, or because it belongs to the named
// Certificate.
func (s Source) Authority(key types.NamespacedName, secret *corev1.Secret) ([]byte, error) {
	named := fmt.Sprintf("Secret %s, for annotation %s,", key, s.annotation)
	switch {
	case s.Secret.Name != "" && secret.Annotations[certmanagerv1.AllowInjectionAnnotation] != "true":
		return nil, fmt.Errorf("%s does not allow it: annotate it with %s: \"true\"", named, certmanagerv1.AllowInjectionAnnotation)
	case s.Certificate.Name != "" && secret.Annotations[certmanagerv1.CertificateNameAnnotation] != s.Certificate.Name:
		return nil, fmt.Errorf("%s is not that of Certificate %s", named, s.Certificate)
	case len(secret.Data["ca.crt"]) == 0:
		return nil, fmt.Errorf("%s has no data at ca.crt", named)
	}
	bundle, err := fieldvalidation.CertificateBundle(secret.Data["ca.crt"])
	if err != nil {
		return nil, fmt.Errorf("%s has at ca.crt what is no authority: %w", named, err)
	}
	return bundle, nil
}

// Inject puts an authority wherever an object has one by which a server is verified:
// webhooks, the webhook of a conversion, an API server. It reports whether the object
// changed.
func Inject(obj map[string]any, bundle []byte) (changed bool) {
	value := base64.StdEncoding.EncodeToString(bundle)
	for _, place := range places(obj) {
		if place["caBundle"] != value {
			place["caBundle"], changed = value, true
		}
	}
	return changed
}

// places are the maps with a field caBundle.
func places(obj map[string]any) (all []map[string]any) {
	add := func(place map[string]any) {
		if place != nil {
			all = append(all, place)
		}
	}
	switch obj["kind"] {
	case "CustomResourceDefinition":
		if conversion := below(obj, "spec", "conversion"); conversion["strategy"] == "Webhook" {
			add(below(conversion, "webhook", "clientConfig"))
		}
	case "APIService":
		if spec := below(obj, "spec"); below(spec, "service") != nil && spec["insecureSkipTLSVerify"] != true {
			add(spec)
		}
	default:
		webhooks, _ := obj["webhooks"].([]any)
		for _, w := range webhooks {
			if webhook, ok := w.(map[string]any); ok {
				add(below(webhook, "clientConfig"))
			}
		}
	}
	return all
}

// below is the map at a path; nil if there is none.
func below(obj map[string]any, path ...string) map[string]any {
	for _, key := range path {
		obj, _ = obj[key].(map[string]any)
	}
	return obj
}
