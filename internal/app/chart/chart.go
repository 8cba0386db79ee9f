// SPDX-License-Identifier: Apache-2.0

// Package chart creates the Helm chart of capstan-manager, and renders its objects,
// from what the program contains: the hand-written templates of charts, the
// definitions and roles of manifests, and the webhooks of the providers.
package chart

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/charts"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/manifests"
)

const (
	// namespace is the placeholder for the release namespace in the files of the
	// chart.
	namespace = "RELEASE-NAMESPACE"
	// service routes to the webhooks of all replicas.
	service = "capstan-webhooks"
	// keep is the annotation by which helm does not delete an object when it
	// uninstalls a release.
	keep = "helm.sh/resource-policy"
	// header of a generated file.
	header = "# Made by capstan generate manager: do not edit.\n"
)

// Files returns all files of the chart, by their paths in it, for a release of a
// version; "" means the version in the source.
func Files(version string) (map[string][]byte, error) {
	all, err := charts.Capstan()
	if err != nil {
		return nil, err
	}
	if version != "" {
		text := strings.ReplaceAll(string(all["Chart.yaml"]), "version: 0.0.0-dev", "version: "+strings.TrimPrefix(version, "v"))
		all["Chart.yaml"] = []byte(strings.ReplaceAll(text, "appVersion: dev", fmt.Sprintf("appVersion: %q", version)))
	}
	for _, add := range []func(map[string][]byte) error{addDefinitions, addRoles, addWebhooks} {
		if err := add(all); err != nil {
			return nil, fmt.Errorf("make the chart: %w", err)
		}
	}
	return all, nil
}

// addDefinitions adds the definitions; the manager converts the objects of those
// with old versions.
func addDefinitions(all map[string][]byte) error {
	crds, err := manifests.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		metav1.SetMetaDataAnnotation(&crd.ObjectMeta, keep, "keep")
		if len(crd.Spec.Versions) > 1 {
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
						Namespace: namespace, Name: service, Path: new(conversion.Path), Port: new(int32(443)),
					}},
					ConversionReviewVersions: []string{"v1"},
				},
			}
		}
		if all["files/crds/"+crd.Name+".yaml"], err = document(crd, "status"); err != nil {
			return err
		}
	}
	return nil
}

// addRoles adds the roles. The aggregated role has no rules, because the API
// server's controller fills them in. It stays when the release is uninstalled,
// without rules: otherwise the aggregating controller would create it again,
// without a release, and helm would refuse to install it again.
func addRoles(all map[string][]byte) error {
	roles, err := manifests.RBAC()
	if err != nil {
		return err
	}
	for _, role := range roles {
		drop := []string{}
		if role.AggregationRule != nil {
			drop = append(drop, "rules")
			metav1.SetMetaDataAnnotation(&role.ObjectMeta, keep, "keep")
		}
		if all["files/roles/"+role.Name+".yaml"], err = document(role, drop...); err != nil {
			return err
		}
	}
	return nil
}

// addWebhooks adds the registrations of the webhooks of each provider.
func addWebhooks(all map[string][]byte) error {
	for _, provider := range controllers.Providers() {
		of := webhooks.Of(webhooks.Clients{}, localinfra.Backends{}, controllers.Gates{}, provider)
		mutating, validating := webhook.Configurations("capstan-"+provider, of, func(path string) admissionregistrationv1.WebhookClientConfig {
			return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: namespace, Name: service, Path: &path, Port: new(int32(443)),
			}}
		})
		mutating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"))
		validating.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
		text := []byte{}
		for _, config := range []client.Object{mutating, validating} {
			doc, err := document(config)
			if err != nil {
				return err
			}
			if len(text) > 0 {
				text = append(text, "---\n"...)
			}
			text = append(text, doc...)
		}
		all["files/webhooks/"+provider+".yaml"] = text
	}
	return nil
}

// document returns an object as YAML, without some of its fields.
func document(obj client.Object, without ...string) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	for _, name := range without {
		delete(fields, name)
	}
	if meta, ok := fields["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	text, err := yaml.Marshal(fields)
	return append([]byte(header), text...), err
}
