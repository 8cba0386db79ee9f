// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// An unpacked layer is a folder: a list of its entries, and next to it the contents
// of its files, by number.
const (
	listFile = "list.json"
	filesDir = "files"
)

// The kinds of entries. Letters make a list readable.
const (
	folder   = "folder"
	file     = "file"
	symlink  = "symlink"
	hardlink = "hardlink"
	whiteout = "whiteout" // hides one name of the layers below
	opaque   = "opaque"   // hides everything in a folder of the layers below
)

// entry is an entry of a layer, in the order of the archive. Names are bytes, as in
// an archive: they need not be text.
type entry struct {
	Kind   string `json:"kind"`
	Name   []byte `json:"name"`
	Link   []byte `json:"link,omitempty"` // of links: the target
	Mode   int64  `json:"mode,omitempty"` // of layers for Pods: only permissions and sticky bit
	User   int    `json:"user,omitempty"`
	Group  int    `json:"group,omitempty"`
	Number int    `json:"number,omitempty"` // of files: the name of its contents
	// Attributes are extended attributes, of privileged layers.
	Attributes map[string][]byte `json:"attributes,omitempty"`
}

// writeList creates the list of an unpacked layer from the entries that fill encodes,
// and the folder for the contents of its files.
func writeList(dir string, fill func(list *json.Encoder) error) (err error) {
	if err := os.Mkdir(filepath.Join(dir, filesDir), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, listFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	text := bufio.NewWriter(f)
	defer func() { err = errors.Join(err, text.Flush(), f.Close()) }()
	return fill(json.NewEncoder(text))
}

// Files returns the files with the contents of an unpacked layer by their names in it.
func Files(dir string) (map[string]string, error) {
	found := map[string]string{}
	err := readList(dir, func(e *entry) error {
		switch e.Kind {
		case file:
			found[string(e.Name)] = contentOf(dir, e)
		case hardlink:
			found[string(e.Name)] = found[string(e.Link)]
		}
		return nil
	})
	return found, err
}

// readList calls visit for each entry of an unpacked layer.
func readList(dir string, visit func(e *entry) error) error {
	f, err := os.Open(filepath.Join(dir, listFile))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	for decoder := json.NewDecoder(bufio.NewReader(f)); ; {
		e := &entry{}
		err := decoder.Decode(e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(e); err != nil {
			return err
		}
	}
}
