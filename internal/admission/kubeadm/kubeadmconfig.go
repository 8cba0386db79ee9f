// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/ignition"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// ValidateKubeadmConfig returns the errors in a KubeadmConfig.
func ValidateKubeadmConfig(c, _ *bootstrapv1.KubeadmConfig) field.ErrorList {
	return validateConfig(field.NewPath("spec"), &c.Spec)
}

// ValidateKubeadmConfigTemplate returns the errors in a KubeadmConfigTemplate.
func ValidateKubeadmConfigTemplate(t, _ *bootstrapv1.KubeadmConfigTemplate) field.ErrorList {
	template := field.NewPath("spec", "template")
	return append(fieldvalidation.Metadata(template.Child("metadata"), t.Spec.Template.ObjectMeta), validateConfig(template.Child("spec"), &t.Spec.Template.Spec)...)
}

// validateConfig returns the errors in the configuration of a machine.
func validateConfig(at *field.Path, spec *bootstrapv1.KubeadmConfigSpec) field.ErrorList {
	errs := validateFiles(at.Child("files"), spec.Files)
	errs = append(errs, validateUsers(at.Child("users"), spec.Users)...)
	errs = append(errs, validateDiscovery(at.Child("joinConfiguration", "discovery"), spec.JoinConfiguration.Discovery)...)
	errs = append(errs, validateDisks(at.Child("diskSetup", "partitions"), spec.DiskSetup.Partitions)...)
	if spec.Format == bootstrapv1.Ignition {
		return append(errs, ignition.Check(at, spec)...)
	}
	if spec.Ignition.ContainerLinuxConfig.AdditionalConfig != "" || spec.Ignition.ContainerLinuxConfig.Strict != nil {
		errs = append(errs, field.Forbidden(at.Child("ignition"), "is only for format ignition"))
	}
	return errs
}

func validateFiles(at *field.Path, files []bootstrapv1.File) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, f := range files {
		here := at.Index(i)
		secret := f.ContentFrom.Secret
		switch {
		case f.Content != "" && secret != (bootstrapv1.SecretFileSource{}):
			errs = append(errs, field.Invalid(here, f.Path, "has both content and contentFrom; leave one of them out"))
		case f.Content == "":
			errs = append(errs, secretKey(here.Child("contentFrom", "secret"), secret.Name, secret.Key)...)
		}
		if seen[f.Path] {
			errs = append(errs, field.Duplicate(here.Child("path"), f.Path))
		}
		seen[f.Path] = true
	}
	if _, err := kubeadm.Expand(files, "v1.0.0"); err != nil { // any version
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, err.Error()))
	}
	return errs
}

func validateUsers(at *field.Path, users []bootstrapv1.User) (errs field.ErrorList) {
	for i, u := range users {
		here := at.Index(i)
		secret := u.PasswdFrom.Secret
		switch {
		case u.Passwd != "" && secret != (bootstrapv1.SecretPasswdSource{}):
			errs = append(errs, field.Invalid(here, u.Name, "has both passwd and passwdFrom; leave one of them out"))
		case u.Passwd == "":
			errs = append(errs, secretKey(here.Child("passwdFrom", "secret"), secret.Name, secret.Key)...)
		}
	}
	return errs
}

// secretKey demands both parts of a reference to a key of a Secret, or none.
func secretKey(at *field.Path, name, key string) (errs field.ErrorList) {
	if name == "" && key != "" {
		errs = append(errs, field.Required(at.Child("name"), "the Secret that has the key"))
	}
	if name != "" && key == "" {
		errs = append(errs, field.Required(at.Child("key"), "the key in Secret "+name))
	}
	return errs
}

func validateDiscovery(at *field.Path, d bootstrapv1.Discovery) field.ErrorList {
	user := d.File.KubeConfig.User
	exec := user.Exec.Command != "" || user.Exec.APIVersion != "" || len(user.Exec.Args)+len(user.Exec.Env) > 0
	provider := user.AuthProvider.Name != "" || len(user.AuthProvider.Config) > 0
	if exec && provider {
		return field.ErrorList{field.Invalid(at.Child("file", "kubeConfig", "user"), "exec and authProvider", "leave one of exec and authProvider out")}
	}
	return nil
}

func validateDisks(at *field.Path, partitions []bootstrapv1.Partition) (errs field.ErrorList) {
	for i, p := range partitions {
		sum := int32(0)
		for _, part := range p.DiskLayout {
			sum += part.Percentage
		}
		if sum > 100 {
			errs = append(errs, field.Invalid(at.Index(i).Child("diskLayout"), sum, "the percentages of "+p.Device+" must not add up to more than 100"))
		}
	}
	return errs
}
