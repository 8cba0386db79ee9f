// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	bootstrapv1beta1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta1"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func filesUp(old []bootstrapv1beta1.File, kept []bootstrapv1.File) []bootstrapv1.File {
	i := -1
	return rules.List(old, func(old *bootstrapv1beta1.File, hub *bootstrapv1.File) {
		i++
		was := partner(kept, i, func(k *bootstrapv1.File) bool { return k.Path == old.Path })
		*hub = bootstrapv1.File{
			Path: old.Path, Owner: old.Owner, Permissions: old.Permissions, Encoding: old.Encoding, Append: rules.Meant(old.Append, was.Append),
			Content: old.Content, ContentFormat: old.ContentFormat,
		}
		if s := old.ContentFrom; s != nil {
			hub.ContentFrom.Secret = bootstrapv1.SecretFileSource(s.Secret)
		}
	})
}

func filesDown(hub []bootstrapv1.File) []bootstrapv1beta1.File {
	return rules.List(hub, func(hub *bootstrapv1.File, old *bootstrapv1beta1.File) {
		*old = bootstrapv1beta1.File{
			Path: hub.Path, Owner: hub.Owner, Permissions: hub.Permissions, Encoding: hub.Encoding, Append: rules.Value(hub.Append),
			Content: hub.Content, ContentFormat: hub.ContentFormat,
			ContentFrom: rules.Pointer(bootstrapv1beta1.FileSource{Secret: bootstrapv1beta1.SecretFileSource(hub.ContentFrom.Secret)}),
		}
	})
}

func usersUp(old []bootstrapv1beta1.User) []bootstrapv1.User {
	return rules.List(old, func(old *bootstrapv1beta1.User, hub *bootstrapv1.User) {
		*hub = bootstrapv1.User{
			Name: old.Name, Gecos: rules.Value(old.Gecos), Groups: rules.Value(old.Groups), HomeDir: rules.Value(old.HomeDir),
			Inactive: old.Inactive, Shell: rules.Value(old.Shell), Passwd: rules.Value(old.Passwd), PrimaryGroup: rules.Value(old.PrimaryGroup),
			LockPassword: old.LockPassword, Sudo: rules.Value(old.Sudo), SSHAuthorizedKeys: old.SSHAuthorizedKeys,
		}
		if s := old.PasswdFrom; s != nil {
			hub.PasswdFrom.Secret = bootstrapv1.SecretPasswdSource(s.Secret)
		}
	})
}

func usersDown(hub []bootstrapv1.User) []bootstrapv1beta1.User {
	return rules.List(hub, func(hub *bootstrapv1.User, old *bootstrapv1beta1.User) {
		*old = bootstrapv1beta1.User{
			Name: hub.Name, Gecos: rules.Pointer(hub.Gecos), Groups: rules.Pointer(hub.Groups), HomeDir: rules.Pointer(hub.HomeDir),
			Inactive: hub.Inactive, Shell: rules.Pointer(hub.Shell), Passwd: rules.Pointer(hub.Passwd), PrimaryGroup: rules.Pointer(hub.PrimaryGroup),
			LockPassword: hub.LockPassword, Sudo: rules.Pointer(hub.Sudo), SSHAuthorizedKeys: hub.SSHAuthorizedKeys,
			PasswdFrom: rules.Pointer(bootstrapv1beta1.PasswdSource{Secret: bootstrapv1beta1.SecretPasswdSource(hub.PasswdFrom.Secret)}),
		}
	})
}

// diskSetupUp omits a layout that is false if partitions are listed: v1beta2 permits
// only one of the two.
func diskSetupUp(old *bootstrapv1beta1.DiskSetup) (hub bootstrapv1.DiskSetup) {
	if old == nil {
		return hub
	}
	hub.Partitions = rules.List(old.Partitions, func(old *bootstrapv1beta1.Partition, hub *bootstrapv1.Partition) {
		*hub = bootstrapv1.Partition{Device: old.Device, Layout: &old.Layout, Overwrite: old.Overwrite, TableType: rules.Value(old.TableType), DiskLayout: old.DiskLayout}
		if !old.Layout && len(old.DiskLayout) > 0 {
			hub.Layout = nil
		}
	})
	hub.Filesystems = rules.List(old.Filesystems, func(old *bootstrapv1beta1.Filesystem, hub *bootstrapv1.Filesystem) {
		*hub = bootstrapv1.Filesystem{
			Device: old.Device, Filesystem: old.Filesystem, Label: old.Label, Partition: rules.Value(old.Partition),
			Overwrite: old.Overwrite, ReplaceFS: rules.Value(old.ReplaceFS), ExtraOpts: old.ExtraOpts,
		}
	})
	return hub
}

func diskSetupDown(hub bootstrapv1.DiskSetup) *bootstrapv1beta1.DiskSetup {
	return rules.Pointer(bootstrapv1beta1.DiskSetup{
		Partitions: rules.List(hub.Partitions, func(hub *bootstrapv1.Partition, old *bootstrapv1beta1.Partition) {
			*old = bootstrapv1beta1.Partition{Device: hub.Device, Layout: rules.Value(hub.Layout), Overwrite: hub.Overwrite, TableType: rules.Pointer(hub.TableType), DiskLayout: hub.DiskLayout}
		}),
		Filesystems: rules.List(hub.Filesystems, func(hub *bootstrapv1.Filesystem, old *bootstrapv1beta1.Filesystem) {
			*old = bootstrapv1beta1.Filesystem{
				Device: hub.Device, Filesystem: hub.Filesystem, Label: hub.Label, Partition: rules.Pointer(hub.Partition),
				Overwrite: hub.Overwrite, ReplaceFS: rules.Pointer(hub.ReplaceFS), ExtraOpts: hub.ExtraOpts,
			}
		}),
	})
}
