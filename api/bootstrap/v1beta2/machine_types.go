// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Encoding is the encoding of the content of a file.
// +kubebuilder:validation:Enum=base64;gzip;gzip+base64
type Encoding string

const (
	// Base64 is content in base64.
	Base64 Encoding = "base64"

	// Gzip is content compressed by gzip.
	Gzip Encoding = "gzip"

	// GzipBase64 is content compressed by gzip, then put in base64.
	GzipBase64 Encoding = "gzip+base64"
)

// FileContentFormat specifies whether the content of a file is used unchanged.
// +kubebuilder:validation:Enum=Raw;Template
type FileContentFormat string

const (
	// FileContentFormatRaw is content that is used unchanged.
	FileContentFormatRaw FileContentFormat = "Raw"

	// FileContentFormatTemplate is content that is a Go text/template. Its only
	// datum is .controlPlane.version.
	FileContentFormatTemplate FileContentFormat = "Template"
)

// File is a file to write on the machine.
type File struct {
	// path is the absolute path of the file.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`

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
	Encoding Encoding `json:"encoding,omitempty"`

	// append adds to a file that exists, instead of replacing it.
	// +optional
	Append *bool `json:"append,omitempty"`

	// content is the content itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	Content string `json:"content,omitempty"`

	// contentFrom refers to the content, instead of content.
	// +optional
	ContentFrom FileSource `json:"contentFrom,omitempty,omitzero"`

	// contentFormat specifies whether the content is used unchanged (Raw, also
	// when empty) or executed as a template.
	// +optional
	ContentFormat FileContentFormat `json:"contentFormat,omitempty"`
}

// FileSource is where the content of a file is kept.
type FileSource struct {
	// secret is a key of a Secret in the config's namespace.
	// +required
	Secret SecretFileSource `json:"secret,omitempty,omitzero"`
}

// SecretFileSource is a key of a Secret that holds a file.
type SecretFileSource struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Key string `json:"key,omitempty"`
}

// User is an account to create on the machine.
type User struct {
	// name of the account.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// gecos is a remark about the account, usually the full name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Gecos string `json:"gecos,omitempty"`

	// groups are further groups of the account, separated by commas.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Groups string `json:"groups,omitempty"`

	// homeDir is the home directory.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	HomeDir string `json:"homeDir,omitempty"`

	// inactive creates an account that cannot be used yet.
	// +optional
	Inactive *bool `json:"inactive,omitempty"`

	// shell is the login shell.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Shell string `json:"shell,omitempty"`

	// passwd is the hash of the password.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Passwd string `json:"passwd,omitempty"`

	// passwdFrom refers to the hash of the password, instead of passwd.
	// +optional
	PasswdFrom PasswdSource `json:"passwdFrom,omitempty,omitzero"`

	// primaryGroup is the account's own group.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PrimaryGroup string `json:"primaryGroup,omitempty"`

	// lockPassword forbids login by password.
	// +optional
	LockPassword *bool `json:"lockPassword,omitempty"`

	// sudo is the account's rule in sudoers.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Sudo string `json:"sudo,omitempty"`

	// sshAuthorizedKeys are public keys that may log in.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	SSHAuthorizedKeys []string `json:"sshAuthorizedKeys,omitempty"`
}

// PasswdSource is where the hash of a password is kept.
type PasswdSource struct {
	// secret is a key of a Secret in the config's namespace.
	// +required
	Secret SecretPasswdSource `json:"secret,omitempty,omitzero"`
}

// SecretPasswdSource is a key of a Secret that holds the hash of a password.
type SecretPasswdSource struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key in the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Key string `json:"key,omitempty"`
}

// NTP defines the time servers of the machine.
// +kubebuilder:validation:MinProperties=1
type NTP struct {
	// servers are the time servers to ask.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Servers []string `json:"servers,omitempty"`

	// enabled turns the time service on or off.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// DiskSetup partitions disks and creates file systems on them.
// +kubebuilder:validation:MinProperties=1
type DiskSetup struct {
	// partitions are the partition tables to write, one per device.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Partitions []Partition `json:"partitions,omitempty"`

	// filesystems are the file systems to make.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Filesystems []Filesystem `json:"filesystems,omitempty"`
}

// Partition is the partition table of one device.
// +kubebuilder:validation:XValidation:rule="[has(self.layout),has(self.diskLayout)].filter(x,x==true).size() == 1",message="set exactly one of layout and diskLayout"
type Partition struct {
	// device is the disk, such as /dev/sdb.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Device string `json:"device,omitempty"`

	// layout true creates one partition over the whole device; false creates
	// none.
	// +optional
	Layout *bool `json:"layout,omitempty"`

	// overwrite writes the table even where the device has one.
	// +optional
	Overwrite *bool `json:"overwrite,omitempty"`

	// tableType is the kind of the table; mbr when it is empty.
	// +optional
	// +kubebuilder:validation:Enum=mbr;gpt
	TableType string `json:"tableType,omitempty"`

	// diskLayout lists the partitions by their share of the device, instead of
	// layout.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	DiskLayout []PartitionSpec `json:"diskLayout,omitempty"`
}

// PartitionSpec is one partition of a device.
type PartitionSpec struct {
	// percentage is the partition's share of the device.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percentage int32 `json:"percentage,omitempty"`

	// partitionType is what the partition is for: one of the names below or
	// a GPT type GUID. Linux when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^(Linux|LinuxSwap|LinuxRAID|LVM|Fat32|NTFS|LinuxExtended|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$')",message="use Linux, LinuxSwap, LinuxRAID, LVM, Fat32, NTFS, LinuxExtended or the GUID of a GPT partition type"
	PartitionType string `json:"partitionType,omitempty"`
}

// What a partition is for.
const (
	// PartitionTypeLinux is for a Linux file system.
	PartitionTypeLinux = "Linux"
	// PartitionTypeLinuxSwap is swap space.
	PartitionTypeLinuxSwap = "LinuxSwap"
	// PartitionTypeLinuxRAID is part of a software RAID.
	PartitionTypeLinuxRAID = "LinuxRAID"
	// PartitionTypeLVM is a physical volume of LVM.
	PartitionTypeLVM = "LVM"
	// PartitionTypeFat32 is for a FAT32 file system.
	PartitionTypeFat32 = "Fat32"
	// PartitionTypeNTFS is for an NTFS file system.
	PartitionTypeNTFS = "NTFS"
	// PartitionTypeLinuxExtended is an extended partition.
	PartitionTypeLinuxExtended = "LinuxExtended"
)

// Filesystem is a file system to make.
type Filesystem struct {
	// device is the disk or partition.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Device string `json:"device,omitempty"`

	// filesystem is its type, such as ext4.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Filesystem string `json:"filesystem,omitempty"`

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
	Partition string `json:"partition,omitempty"`

	// overwrite creates the file system even if one exists.
	// +optional
	Overwrite *bool `json:"overwrite,omitempty"`

	// replaceFS is the type of a file system that may be overwritten, on
	// Microsoft Azure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ReplaceFS string `json:"replaceFS,omitempty"`

	// extraOpts are further arguments of mkfs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	ExtraOpts []string `json:"extraOpts,omitempty"`
}

// MountPoints is one line of fstab as the list of its fields: device, mount
// point, type, options and so on.
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=100
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=512
type MountPoints []string
