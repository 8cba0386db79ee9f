// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"strconv"
	"strings"
)

// APIEndpoint is where an API server answers.
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// host is a name or an address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`

	// port is the port that the API server listens on.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// IsZero reports whether neither host nor port is known.
func (e APIEndpoint) IsZero() bool { return e == APIEndpoint{} }

// IsValid reports whether both host and port are known.
func (e APIEndpoint) IsValid() bool { return e.Host != "" && e.Port != 0 }

// String returns host:port, with brackets around an IPv6 address.
func (e APIEndpoint) String() string {
	// Not net.JoinHostPort: pure packages import this one and may not reach net.
	host := e.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(e.Port))
}
