// SPDX-License-Identifier: Apache-2.0

// Package charts holds what is written by hand of the Helm chart of
// capstan-manager. What else belongs to it is made from what the program has.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed all:capstan
var files embed.FS

// Capstan returns the files of the chart by their paths in it.
func Capstan() (map[string][]byte, error) {
	all := map[string][]byte{}
	dir, err := fs.Sub(files, "capstan")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(dir, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[path], err = fs.ReadFile(dir, path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	return all, nil
}
