// SPDX-License-Identifier: Apache-2.0

package v1beta1

import bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"

// File is a file to write on the machine.
type File struct {
	// path is the absolute path of the file.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`

	// owner is the file's user and group, such as "root:root".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Owner string `json:"owner,omitempty"`

	// permissions is the file's mode in octal, such as "0640".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Permissions string `json:"permissions,omitempty"`

	// encoding is the encoding of content; plain when it is empty.
	// +optional
	Encoding bootstrapv1.Encoding `json:"encoding,omitempty"`

	// append adds to a file that exists, instead of replacing it.
	// +optional
	Append bool `json:"append,omitempty"`

	// content is the content itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	Content string `json:"content,omitempty"`

	// contentFrom refers to the content, instead of content.
	// +optional
	ContentFrom *FileSource `json:"contentFrom,omitempty"`

	// contentFormat specifies whether the content is used unchanged (Raw, also
	// when empty) or executed as a template.
	// +optional
	ContentFormat bootstrapv1.FileContentFormat `json:"contentFormat,omitempty"`
}

// FileSource is where the content of a file is kept.
type FileSource struct {
	// secret is a key of a Secret in the config's namespace.
	// +required
	Secret SecretFileSource `json:"secret"`
}

// SecretFileSource is a key of a Secret that holds a file.
type SecretFileSource struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Key string `json:"key"`
}

// User is an account to create on the machine.
type User struct {
	// name of the account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`

	// gecos is a remark about the account, usually the full name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Gecos *string `json:"gecos,omitempty"`

	// groups are further groups of the account, separated by commas.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Groups *string `json:"groups,omitempty"`

	// homeDir is the home directory.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	HomeDir *string `json:"homeDir,omitempty"`

	// inactive creates an account that cannot be used yet.
	// +optional
	Inactive *bool `json:"inactive,omitempty"`

	// shell is the login shell.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Shell *string `json:"shell,omitempty"`

	// passwd is the hash of the password.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Passwd *string `json:"passwd,omitempty"`

	// passwdFrom refers to the hash of the password, instead of passwd.
	// +optional
	PasswdFrom *PasswdSource `json:"passwdFrom,omitempty"`

	// primaryGroup is the account's own group.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PrimaryGroup *string `json:"primaryGroup,omitempty"`

	// lockPassword forbids login by password.
	// +optional
	LockPassword *bool `json:"lockPassword,omitempty"`

	// sudo is the account's rule in sudoers.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Sudo *string `json:"sudo,omitempty"`

	// sshAuthorizedKeys are public keys that may log in.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	SSHAuthorizedKeys []string `json:"sshAuthorizedKeys,omitempty"`
}

// PasswdSource is where the hash of a password is kept.
type PasswdSource struct {
	// secret is a key of a Secret in the config's namespace.
	// +required
	Secret SecretPasswdSource `json:"secret"`
}

// SecretPasswdSource is a key of a Secret that holds the hash of a password.
type SecretPasswdSource struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Key string `json:"key"`
}

// NTP defines the time servers of the machine.
type NTP struct {
	// servers are the time servers to ask.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Servers []string `json:"servers,omitempty"`

	// enabled turns the time service on or off.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// DiskSetup partitions disks and creates file systems on them.
type DiskSetup struct {
	// partitions are the partition tables to write, one per device.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Partitions []Partition `json:"partitions,omitempty"`

	// filesystems are the file systems to make.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Filesystems []Filesystem `json:"filesystems,omitempty"`
}

// Partition is the partition table of one device.
type Partition struct {
	// device is the disk, such as /dev/sdb.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Device string `json:"device"`

	// layout true creates one partition over the whole device; false creates
	// none.
	// +required
	Layout bool `json:"layout"`

	// overwrite writes the table even where the device has one.
	// +optional
	Overwrite *bool `json:"overwrite,omitempty"`

	// tableType is the kind of the table; mbr when it is empty.
	// +optional
	// +kubebuilder:validation:Enum=mbr;gpt
	TableType *string `json:"tableType,omitempty"`

	// diskLayout lists the partitions by their share of the device, instead of
	// layout.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	DiskLayout []bootstrapv1.PartitionSpec `json:"diskLayout,omitempty"`
}

// Filesystem is a file system to make.
type Filesystem struct {
	// device is the disk or partition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Device string `json:"device"`

	// filesystem is its type, such as ext4.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Filesystem string `json:"filesystem"`

	// label of the file system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Label string `json:"label,omitempty"`

	// partition is which partition of the device: a number, "auto", "any" or
	// "none".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Partition *string `json:"partition,omitempty"`

	// overwrite creates the file system even if one exists.
	// +optional
	Overwrite *bool `json:"overwrite,omitempty"`

	// replaceFS is the type of a file system that may be overwritten, on
	// Microsoft Azure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ReplaceFS *string `json:"replaceFS,omitempty"`

	// extraOpts are further arguments of mkfs.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	ExtraOpts []string `json:"extraOpts,omitempty"`
}

// MountPoints is one line of fstab as the list of its fields: device, mount
// point, type, options and so on.
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=512
type MountPoints []string
