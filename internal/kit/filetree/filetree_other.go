// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filetree

import (
	"errors"
	"os"
)

// Remove removes a tree, or a file. Programs without trust run on Linux alone.
func Remove(path string) error { return os.RemoveAll(path) }

// Measure is for Linux alone, where programs without trust run.
func Measure(string, int64) (Usage, error) { return Usage{}, errors.ErrUnsupported }
