// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package layers

import (
	"errors"
	"os"
)

// makeMarker returns an error: overlayfs is not available here.
func makeMarker(*os.File, string) error {
	return errors.New("a file that is gone from a lower layer can be kept on Linux alone: import the image there")
}
