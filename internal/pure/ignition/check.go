// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

const additionalPath = "spec.ignition.containerLinuxConfig.additionalConfig"

// Check returns the fields of a spec at a path that Ignition does not support.
func Check(at *field.Path, spec *bootstrapv1.KubeadmConfigSpec) (errs field.ErrorList) {
	if len(spec.BootCommands) > 0 {
		errs = append(errs, field.Forbidden(at.Child("bootCommands"), "Ignition runs no commands at each boot: add a unit by ignition.containerLinuxConfig.additionalConfig"))
	}
	errs = append(errs, checkRegistration(at.Child("initConfiguration", "nodeRegistration"), spec.InitConfiguration.NodeRegistration)...)
	errs = append(errs, checkRegistration(at.Child("joinConfiguration", "nodeRegistration"), spec.JoinConfiguration.NodeRegistration)...)
	for i, f := range spec.Files {
		here := at.Child("files").Index(i)
		if hidden(f.Path) {
			errs = append(errs, field.Invalid(here.Child("path"), f.Path, hiddenWhy))
		}
		if !path.IsAbs(f.Path) {
			errs = append(errs, field.Invalid(here.Child("path"), f.Path, "must begin with /"))
		}
		if _, err := permissions(f.Permissions); err != nil {
			errs = append(errs, field.Invalid(here.Child("permissions"), f.Permissions, "must be an octal number such as "+defaultPermissions))
		}
	}
	for i, u := range spec.Users {
		if ptr.Deref(u.Inactive, false) {
			errs = append(errs, field.Forbidden(at.Child("users").Index(i).Child("inactive"), "Ignition knows no account that cannot be used yet"))
		}
		for _, text := range []string{u.Name, u.Sudo} {
			errs = append(errs, oneLine(at.Child("users").Index(i), text)...)
		}
	}
	for i, server := range spec.NTP.Servers {
		errs = append(errs, oneLine(at.Child("ntp", "servers").Index(i), server)...)
	}
	errs = append(errs, checkDisks(at.Child("diskSetup"), spec.DiskSetup)...)
	for i, m := range spec.Mounts {
		errs = append(errs, checkMount(at.Child("mounts").Index(i), m)...)
	}
	if _, err := parseAdditional(spec.Ignition.ContainerLinuxConfig.AdditionalConfig); err != nil {
		errs = append(errs, field.Forbidden(at.Child("ignition", "containerLinuxConfig", "additionalConfig"), err.Error()))
	}
	return errs
}

// checkRegistration refuses what only cloud-init fills in.
func checkRegistration(at *field.Path, node bootstrapv1.NodeRegistrationOptions) (errs field.ErrorList) {
	const jinja = "{{"
	if strings.Contains(node.Name, jinja) {
		errs = append(errs, field.Invalid(at.Child("name"), node.Name, "only cloud-init fills this in: leave it out for the hostname, or write a variable such as ${COREOS_EC2_HOSTNAME} and fill it in by a command before kubeadm, in "+ConfigPath))
	}
	for i, arg := range node.KubeletExtraArgs {
		if value := ptr.Deref(arg.Value, ""); strings.Contains(value, jinja) {
			errs = append(errs, field.Invalid(at.Child("kubeletExtraArgs").Index(i).Child("value"), value, "only cloud-init fills this in: write a variable, and fill it in by a command before kubeadm, in "+ConfigPath))
		}
	}
	return errs
}

// formats are the file systems that Ignition can create.
var formats = []string{"btrfs", "ext4", "swap", "vfat", "xfs"}

func checkDisks(at *field.Path, setup bootstrapv1.DiskSetup) (errs field.ErrorList) {
	for i, p := range setup.Partitions {
		here := at.Child("partitions").Index(i)
		if p.TableType != "" && p.TableType != "gpt" && partitioned(p) {
			errs = append(errs, field.NotSupported(here.Child("tableType"), p.TableType, []string{"gpt"}))
		}
		if len(p.DiskLayout) > 1 || len(p.DiskLayout) == 1 && p.DiskLayout[0].Percentage != 100 {
			errs = append(errs, field.Forbidden(here.Child("diskLayout"), "Ignition knows no shares of a disk, only one partition of 100 percent"))
		}
	}
	for i, f := range setup.Filesystems {
		here := at.Child("filesystems").Index(i)
		if f.ReplaceFS != "" {
			errs = append(errs, field.Forbidden(here.Child("replaceFS"), "Ignition replaces any file system: set overwrite"))
		}
		if !slices.Contains(formats, f.Filesystem) {
			errs = append(errs, field.NotSupported(here.Child("filesystem"), f.Filesystem, formats))
		}
		if _, err := strconv.ParseUint(f.Partition, 10, 8); err != nil && !slices.Contains([]string{"", "none", "auto", "any"}, f.Partition) {
			errs = append(errs, field.NotSupported(here.Child("partition"), f.Partition, []string{"a number", "none", "auto", "any"}))
		}
		if !path.IsAbs(f.Device) {
			errs = append(errs, field.Invalid(here.Child("device"), f.Device, "must begin with /"))
		}
	}
	return errs
}

func checkMount(at *field.Path, m bootstrapv1.MountPoints) (errs field.ErrorList) {
	for _, text := range m {
		errs = append(errs, oneLine(at, text)...)
	}
	switch {
	case len(m) < 2:
		return append(errs, field.Invalid(at, strings.Join(m, " "), "must name a device and a mount point"))
	case !path.IsAbs(m[1]) || len(m) > 2 && m[2] == "swap":
		return append(errs, field.Invalid(at, m[1], "must be mounted at a path that begins with /: for swap, add a unit by ignition.containerLinuxConfig.additionalConfig"))
	}
	return errs
}

// oneLine refuses what would add lines to a file of which it is a part.
func oneLine(at *field.Path, text string) field.ErrorList {
	if !strings.ContainsAny(text, "\n\r") {
		return nil
	}
	return field.ErrorList{field.Invalid(at, fmt.Sprintf("%.40s", text), "must be one line")}
}
