// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

const (
	// defaultPort is that of a Service that names none, as in a URL of HTTPS.
	defaultPort = 443

	// maxSettings is how many bytes the keys and values of settings may have
	// together: they are sent with every request.
	maxSettings = 256 << 10

	extensionChanged = webhook.SpecChanged +
		` || object.metadata.?annotations[?'runtime.cluster.x-k8s.io/inject-ca-from-secret'].orValue('')` +
		` != oldObject.metadata.?annotations[?'runtime.cluster.x-k8s.io/inject-ca-from-secret'].orValue('')`

	extensionLacks = `!object.?spec.?namespaceSelector.hasValue()` +
		` || (object.?spec.?clientConfig.?service.hasValue() && !object.spec.clientConfig.service.?port.hasValue())`
)

// ExtensionWebhooks returns the webhooks of the kind. The catalog has the deprecated
// versions of hooks.
func ExtensionWebhooks(c *catalog.Catalog) []webhook.Webhook {
	target := func(name, condition string) webhook.Target {
		return webhook.Target{
			Kind: runtimev1.GroupVersion().WithKind("ExtensionConfig"), Resource: "extensionconfigs",
			Scope: admissionregistrationv1.ClusterScope, When: map[string]string{name: condition},
		}
	}
	return []webhook.Webhook{
		webhook.Default(target("defaults-missing", extensionLacks), DefaultExtensionConfig),
		webhook.Validate(target("spec-or-annotation-changed", extensionChanged), func(_ context.Context, r webhook.Review[runtimev1.ExtensionConfig]) (webhook.Result, error) {
			return webhook.Result{Errors: ValidateExtensionConfig(r.Object, r.Old), Warnings: extensionWarnings(c, r.Object)}, nil
		}),
	}
}

// DefaultExtensionConfig sets what the user left out.
func DefaultExtensionConfig(e, _ *runtimev1.ExtensionConfig) {
	e.Spec.NamespaceSelector = cmp.Or(e.Spec.NamespaceSelector, &metav1.LabelSelector{})
	if s := &e.Spec.ClientConfig.Service; *s != (runtimev1.ServiceReference{}) && s.Port == nil {
		s.Port = new(int32(defaultPort))
	}
}

// ValidateExtensionConfig returns the errors in an ExtensionConfig.
func ValidateExtensionConfig(e, _ *runtimev1.ExtensionConfig) field.ErrorList {
	var errs field.ErrorList
	for _, reason := range validation.IsDNS1123Label(e.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), e.Name, reason))
	}
	spec := field.NewPath("spec")
	if secret, ok := e.Annotations[runtimev1.InjectCAFromSecretAnnotation]; ok {
		if _, err := fieldvalidation.SecretKey(secret); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(runtimev1.InjectCAFromSecretAnnotation), secret, err.Error()))
		}
	}
	errs = append(errs, fieldvalidation.Selector(spec.Child("namespaceSelector"), e.Spec.NamespaceSelector)...)
	errs = append(errs, validateSettings(spec.Child("settings"), e.Spec.Settings)...)
	at, config := spec.Child("clientConfig"), &e.Spec.ClientConfig
	if len(config.CABundle) > 0 {
		if _, err := fieldvalidation.CertificateBundle(config.CABundle); err != nil {
			errs = append(errs, field.Invalid(at.Child("caBundle"), fmt.Sprintf("%d bytes", len(config.CABundle)), err.Error()))
		}
	}
	hasService := config.Service != (runtimev1.ServiceReference{})
	switch {
	case config.URL != "" && hasService:
		return append(errs, field.Forbidden(at, "has both url and service; leave one of them out"))
	case config.URL != "":
		return append(errs, validateURL(at.Child("url"), config.URL)...)
	case hasService:
		return append(errs, validateService(at.Child("service"), config.Service)...)
	default:
		return append(errs, field.Required(at, "set url or service"))
	}
}

// extensionWarnings returns warnings about permitted settings that should be avoided.
func extensionWarnings(c *catalog.Catalog, e *runtimev1.ExtensionConfig) []string {
	warnings := extensionconfig.Deprecated(c, e.Status.Handlers)
	if _, injected := e.Annotations[runtimev1.InjectCAFromSecretAnnotation]; !injected && len(e.Spec.ClientConfig.CABundle) == 0 {
		warnings = append(warnings, "spec.clientConfig.caBundle is empty and there is no annotation "+runtimev1.InjectCAFromSecretAnnotation+
			": the extension's certificate will be verified with the system's certificate authorities")
	}
	return warnings
}

func validateSettings(at *field.Path, settings map[string]string) field.ErrorList {
	size := 0
	for key, value := range settings {
		size += len(key) + len(value)
	}
	if size > maxSettings {
		return field.ErrorList{field.TooLong(at, "", maxSettings)}
	}
	return nil
}

func validateURL(at *field.Path, text string) field.ErrorList {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return field.ErrorList{field.Invalid(at, text, "must be https://host:port/path, without user, query and fragment")}
	}
	return nil
}

func validateService(at *field.Path, s runtimev1.ServiceReference) (errs field.ErrorList) {
	for _, reason := range validation.IsDNS1123Label(s.Namespace) {
		errs = append(errs, field.Invalid(at.Child("namespace"), s.Namespace, reason))
	}
	for _, reason := range validation.IsDNS1035Label(s.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), s.Name, reason))
	}
	if s.Path != "" && !strings.HasPrefix(s.Path, "/") {
		errs = append(errs, field.Invalid(at.Child("path"), s.Path, "must start with /"))
	}
	if s.Port != nil {
		for _, reason := range validation.IsValidPortNum(int(*s.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), *s.Port, reason))
		}
	}
	return errs
}
