// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nodeimages

import (
	"errors"
	"syscall"
)

// apart returns an error: namespaces are not available here.
func apart() (*syscall.SysProcAttr, error) {
	return nil, errors.New("container images are put into a store on Linux alone: build the node image there")
}
