// SPDX-License-Identifier: Apache-2.0

package contract

// BootstrapConfig lists what a bootstrap configuration promises.
type BootstrapConfig struct {
	DataSecretCreated Field[bool]
	DataSecretName    Field[string]
}

var bootstrapConfigs = map[string]BootstrapConfig{
	V1Beta1: {At[bool]("status.ready"), At[string]("status.dataSecretName").within(atMost(maxSecretName))},
	V1Beta2: {At[bool]("status.initialization.dataSecretCreated"), At[string]("status.dataSecretName").within(atMost(maxSecretName))},
}

// BootstrapConfigFor returns the promises of a contract version.
func BootstrapConfigFor(version string) (BootstrapConfig, error) {
	return pick("bootstrap configurations", version, bootstrapConfigs)
}

// Template lists what every <Kind>Template has.
type Template struct {
	Object      Field[map[string]any] // whole; it need not have a spec
	Spec        Field[map[string]any]
	Labels      Field[map[string]string]
	Annotations Field[map[string]string]
}

// AnyTemplate is the same in every contract version.
func AnyTemplate() Template { return anyTemplate }

var anyTemplate = Template{
	Object:      At[map[string]any]("spec.template"),
	Spec:        At[map[string]any]("spec.template.spec"),
	Labels:      At[map[string]string]("spec.template.metadata.labels"),
	Annotations: At[map[string]string]("spec.template.metadata.annotations"),
}
