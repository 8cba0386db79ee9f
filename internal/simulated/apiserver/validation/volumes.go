// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volume checks a volume and the fields of common sources.
func volume(at *field.Path, v *corev1.Volume) field.ErrorList {
	return slices.Concat(
		named(at.Child("name"), v.Name, utilvalidation.IsDNS1123Label),
		exactlyOne(at, v.VolumeSource),
		optionally(v.EmptyDir, func(s corev1.EmptyDirVolumeSource) field.ErrorList {
			return when(s.SizeLimit != nil && s.SizeLimit.Sign() < 0, field.Forbidden(at.Child("emptyDir", "sizeLimit"), "must be greater than or equal to 0"))
		}),
		optionally(v.HostPath, func(s corev1.HostPathVolumeSource) field.ErrorList { return hostPath(at.Child("hostPath"), &s) }),
		optionally(v.Secret, func(s corev1.SecretVolumeSource) field.ErrorList {
			at := at.Child("secret")
			return slices.Concat(named(at.Child("secretName"), s.SecretName, anything), mode(at.Child("defaultMode"), s.DefaultMode), files(at.Child("items"), s.Items))
		}),
		optionally(v.ConfigMap, func(s corev1.ConfigMapVolumeSource) field.ErrorList {
			at := at.Child("configMap")
			return slices.Concat(named(at.Child("name"), s.Name, anything), mode(at.Child("defaultMode"), s.DefaultMode), files(at.Child("items"), s.Items))
		}),
		optionally(v.PersistentVolumeClaim, func(s corev1.PersistentVolumeClaimVolumeSource) field.ErrorList {
			return named(at.Child("persistentVolumeClaim", "claimName"), s.ClaimName, anything)
		}),
		optionally(v.NFS, func(s corev1.NFSVolumeSource) field.ErrorList {
			at := at.Child("nfs")
			return slices.Concat(named(at.Child("server"), s.Server, anything), named(at.Child("path"), s.Path, anything), when(s.Path != "" && !strings.HasPrefix(s.Path, "/"), field.Invalid(at.Child("path"), s.Path, "must be an absolute path")))
		}),
		optionally(v.CSI, func(s corev1.CSIVolumeSource) field.ErrorList {
			return named(at.Child("csi", "driver"), s.Driver, csiDriver)
		}),
		optionally(v.DownwardAPI, func(s corev1.DownwardAPIVolumeSource) field.ErrorList {
			at := at.Child("downwardAPI")
			return append(mode(at.Child("defaultMode"), s.DefaultMode), each(at.Child("items"), s.Items, downwardFile)...)
		}),
		optionally(v.Projected, func(s corev1.ProjectedVolumeSource) field.ErrorList {
			at := at.Child("projected")
			return append(mode(at.Child("defaultMode"), s.DefaultMode), each(at.Child("sources"), s.Sources, projection)...)
		}),
	)
}

// csiDriver is the form of the name of a driver.
func csiDriver(name string) []string {
	if len(name) > utilvalidation.DNS1123LabelMaxLength {
		return []string{utilvalidation.MaxLenError(utilvalidation.DNS1123LabelMaxLength)}
	}
	return utilvalidation.IsDNS1123Subdomain(strings.ToLower(name))
}

func hostPath(at *field.Path, s *corev1.HostPathVolumeSource) field.ErrorList {
	return slices.Concat(
		named(at.Child("path"), s.Path, anything),
		noSteps(at.Child("path"), s.Path),
		optionally(s.Type, func(t corev1.HostPathType) field.ErrorList {
			return oneOf(at.Child("type"), t, corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory, corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)
		}),
	)
}

// mode checks the permissions of a file.
func mode(at *field.Path, m *int32) field.ErrorList {
	return optionally(m, func(m int32) field.ErrorList { return between(at, m, 0, 0o777) })
}

func files(at *field.Path, items []corev1.KeyToPath) field.ErrorList {
	return each(at, items, func(at *field.Path, i *corev1.KeyToPath) field.ErrorList {
		return slices.Concat(named(at.Child("key"), i.Key, anything), named(at.Child("path"), i.Path, anything), inVolume(at.Child("path"), i.Path), mode(at.Child("mode"), i.Mode))
	})
}

// inVolume checks the path of a file that the kubelet writes to a volume.
func inVolume(at *field.Path, name string) field.ErrorList {
	return append(below(at, name), when(strings.HasPrefix(name, ".."), field.Invalid(at, name, "must not start with '..'"))...)
}

func downwardFile(at *field.Path, f *corev1.DownwardAPIVolumeFile) field.ErrorList {
	return slices.Concat(
		named(at.Child("path"), f.Path, anything),
		inVolume(at.Child("path"), f.Path),
		mode(at.Child("mode"), f.Mode),
		when((f.FieldRef == nil) == (f.ResourceFieldRef == nil), field.Required(at, "one of fieldRef and resourceFieldRef is required")),
		optionally(f.FieldRef, func(r corev1.ObjectFieldSelector) field.ErrorList {
			return fieldReference(at.Child("fieldRef"), &r, "metadata.annotations", "metadata.labels")
		}),
		optionally(f.ResourceFieldRef, func(r corev1.ResourceFieldSelector) field.ErrorList {
			return resourceReference(at.Child("resourceFieldRef"), &r, true)
		}),
	)
}

// minTokenLife and maxTokenLife are the limits of the lifetime of a token, in seconds.
const minTokenLife, maxTokenLife = 10 * 60, 1 << 32

func projection(at *field.Path, p *corev1.VolumeProjection) field.ErrorList {
	return slices.Concat(
		when(sources(*p) > 1, field.Forbidden(at, "may not specify more than one source")),
		optionally(p.Secret, func(s corev1.SecretProjection) field.ErrorList {
			return append(named(at.Child("secret", "name"), s.Name, anything), files(at.Child("secret", "items"), s.Items)...)
		}),
		optionally(p.ConfigMap, func(s corev1.ConfigMapProjection) field.ErrorList {
			return append(named(at.Child("configMap", "name"), s.Name, anything), files(at.Child("configMap", "items"), s.Items)...)
		}),
		optionally(p.DownwardAPI, func(s corev1.DownwardAPIProjection) field.ErrorList {
			return each(at.Child("downwardAPI", "items"), s.Items, downwardFile)
		}),
		optionally(p.ServiceAccountToken, func(s corev1.ServiceAccountTokenProjection) field.ErrorList {
			at := at.Child("serviceAccountToken")
			return slices.Concat(
				named(at.Child("path"), s.Path, anything), inVolume(at.Child("path"), s.Path),
				optionally(s.ExpirationSeconds, func(n int64) field.ErrorList {
					return between(at.Child("expirationSeconds"), n, minTokenLife, maxTokenLife)
				}),
			)
		}),
	)
}
