// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package podrunner

import (
	"context"
	"errors"

	"github.com/capstan-dev/capstan/internal/host/pods"
)

// openSandboxes fails: this system has none.
func openSandboxes(dir string, _ network) (sandboxes, error) {
	return nil, errors.New(pods.Check(context.Background(), dir).Missing[0].Why)
}
