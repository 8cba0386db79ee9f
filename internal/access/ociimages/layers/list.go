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

// An unpacked layer is a folder: what it holds in a list, and the contents of its
// files beside that, by number.
const (
	listFile = "list.json"
	filesDir = "files"
)

// The kinds of entries. Letters, so that a list can be read by people.
const (
	folder   = "folder"
	file     = "file"
	symlink  = "symlink"
	hardlink = "hardlink"
	whiteout = "whiteout" // hides one name of the layers below
	opaque   = "opaque"   // hides all that the layers below have in a folder
)

// entry is one of a layer, in the order of the archive. Names are bytes, as in an
// archive: nothing says that they are text.
type entry struct {
	Kind   string `json:"kind"`
	Name   []byte `json:"name"`
	Link   []byte `json:"link,omitempty"` // of links: where to
	Mode   int64  `json:"mode,omitempty"` // permissions and sticky, nothing else
	User   int    `json:"user,omitempty"`
	Group  int    `json:"group,omitempty"`
	Number int    `json:"number,omitempty"` // of files: the name of its contents
}

// list writes entries.
type list struct {
	file    *os.File
	text    *bufio.Writer
	encoder *json.Encoder
}

func newList(dir string) (*list, error) {
	f, err := os.OpenFile(filepath.Join(dir, listFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	text := bufio.NewWriter(f)
	return &list{file: f, text: text, encoder: json.NewEncoder(text)}, nil
}

func (l *list) Close() error { return errors.Join(l.text.Flush(), l.file.Close()) }

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
