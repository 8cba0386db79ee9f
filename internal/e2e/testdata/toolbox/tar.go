// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// archive writes files to its output, as tar cf - FILE, or those of its input to a
// folder, as tar xf - -C FOLDER.
func archive(args []string) error {
	dir, verb := "/", ""
	var names []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-C" && i+1 < len(args):
			i++
			dir = args[i]
		case a == "-" || strings.HasPrefix(a, "--"):
		case verb == "":
			verb = strings.TrimLeft(a, "-")
		default:
			names = append(names, a)
		}
	}
	switch {
	case strings.HasPrefix(verb, "c"):
		w := tar.NewWriter(os.Stdout)
		for _, name := range names {
			if err := add(w, name); err != nil {
				return err
			}
		}
		return w.Close()
	case strings.HasPrefix(verb, "x"):
		return extract(dir)
	}
	return fmt.Errorf("tar %q is not known", args)
}

func add(w *tar.Writer, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o644, Size: int64(len(b))}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

func extract(dir string) error {
	r := tar.NewReader(os.Stdin)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, h.Name), b, 0o644); err != nil {
			return err
		}
	}
}
