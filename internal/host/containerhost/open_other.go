// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package containerhost

import (
	"context"
	"errors"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
)

// Open reports that this platform has no container machines.
func Open(context.Context, Options) (backend localinfra.Backend, stop func() error, err error) {
	return nil, nil, errors.New("container machines need Linux: run the plane on a host that has it, or choose spec.simulated")
}
