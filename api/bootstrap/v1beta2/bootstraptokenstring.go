// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// BootstrapTokenString is a bootstrap token in its two parts. On the wire it is
// the string "id.secret".
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=23
type BootstrapTokenString struct {
	// ID names the token and is not secret: six of [a-z0-9].
	ID string `json:"-"`

	// Secret shows that the bearer may join: sixteen of [a-z0-9].
	Secret string `json:"-"`
}

var tokenPattern = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

// NewBootstrapTokenString takes a token apart. The error does not repeat it.
func NewBootstrapTokenString(token string) (*BootstrapTokenString, error) {
	m := tokenPattern.FindStringSubmatch(token)
	if m == nil {
		return nil, fmt.Errorf("bootstrap token is not of the form %s", tokenPattern)
	}
	return &BootstrapTokenString{ID: m[1], Secret: m[2]}, nil
}

// String is the token in kubeadm's format.
func (t BootstrapTokenString) String() string {
	if t.ID == "" || t.Secret == "" {
		return ""
	}
	return t.ID + "." + t.Secret
}

// MarshalJSON writes the token as one string.
func (t BootstrapTokenString) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.String())
}

// UnmarshalJSON reads the token from one string; an empty one is no token.
func (t *BootstrapTokenString) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read bootstrap token: %w", err)
	}
	if s == "" {
		*t = BootstrapTokenString{}
		return nil
	}
	parsed, err := NewBootstrapTokenString(s)
	if err != nil {
		return err
	}
	*t = *parsed
	return nil
}
