// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// RequestObject is what all requests can do, except the one for discovery.
// +kubebuilder:object:generate=false
type RequestObject interface {
	runtime.Object
	GetSettings() map[string]string
	SetSettings(settings map[string]string)
}

// CommonRequest is what all requests hold, except the one for discovery.
type CommonRequest struct {
	// settings are those of the ExtensionConfig, overridden by those of the
	// ClusterClass patch.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
}

// GetSettings returns the settings.
func (r *CommonRequest) GetSettings() map[string]string { return r.Settings }

// SetSettings replaces the settings.
func (r *CommonRequest) SetSettings(settings map[string]string) { r.Settings = settings }

// ResponseStatus reports whether an extension handled the request successfully.
// +enum
type ResponseStatus string

const (
	// ResponseStatusSuccess means that it did.
	ResponseStatusSuccess ResponseStatus = "Success"

	// ResponseStatusFailure means that it did not; the message gives the reason.
	ResponseStatusFailure ResponseStatus = "Failure"
)

// ResponseObject is what all responses can do.
// +kubebuilder:object:generate=false
type ResponseObject interface {
	runtime.Object
	GetMessage() string
	GetStatus() ResponseStatus
	SetMessage(message string)
	SetStatus(status ResponseStatus)
}

// CommonResponse is what all responses hold.
type CommonResponse struct {
	// status is Success or Failure.
	Status ResponseStatus `json:"status"`

	// message is for people; with Failure, it is the reason.
	// +optional
	Message string `json:"message,omitempty"`
}

// GetMessage returns the message.
func (r *CommonResponse) GetMessage() string { return r.Message }

// GetStatus returns the status.
func (r *CommonResponse) GetStatus() ResponseStatus { return r.Status }

// SetMessage replaces the message.
func (r *CommonResponse) SetMessage(message string) { r.Message = message }

// SetStatus replaces the status.
func (r *CommonResponse) SetStatus(status ResponseStatus) { r.Status = status }

// RetryResponseObject is what the responses can do that can hold something
// up.
// +kubebuilder:object:generate=false
type RetryResponseObject interface {
	ResponseObject
	GetRetryAfterSeconds() int32
	SetRetryAfterSeconds(retryAfterSeconds int32)
}

// CommonRetryResponse is what the responses hold that can hold something up.
type CommonRetryResponse struct {
	// CommonResponse is what all responses hold.
	CommonResponse `json:",inline"`

	// retryAfterSeconds is the number of seconds until the next request; the
	// operation is blocked until then. Zero lets it continue.
	// +kubebuilder:validation:Minimum=0
	RetryAfterSeconds int32 `json:"retryAfterSeconds"`
}

// GetRetryAfterSeconds returns when to ask again.
func (r *CommonRetryResponse) GetRetryAfterSeconds() int32 { return r.RetryAfterSeconds }

// SetRetryAfterSeconds replaces when to ask again.
func (r *CommonRetryResponse) SetRetryAfterSeconds(retryAfterSeconds int32) {
	r.RetryAfterSeconds = retryAfterSeconds
}

// PatchType is the format of a patch.
// +enum
type PatchType string

const (
	// JSONPatchType is a JSON patch as in RFC 6902.
	JSONPatchType PatchType = "JSONPatch"

	// JSONMergePatchType is a JSON merge patch as in RFC 7396.
	JSONMergePatchType PatchType = "JSONMergePatch"
)

// Patch is a change of one object.
type Patch struct {
	// patchType is the format of patch.
	// +required
	PatchType PatchType `json:"patchType,omitempty"`

	// patch is the change; empty is none.
	// +required
	Patch []byte `json:"patch,omitempty"`
}

// ObjectMeta are the labels and annotations of an object.
type ObjectMeta struct {
	// labels are the object's labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are the object's annotations.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
