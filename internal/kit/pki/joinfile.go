// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/sealedfile"
)

const (
	kind = "join"
	// maxContent is many times what a certificate, a key or a list of servers has.
	maxContent = 1 << 20
)

// Store is an external etcd.
type Store struct {
	Servers []string `json:"servers"`
	Prefix  string   `json:"prefix,omitempty"`
	// CAFile, CertFile and KeyFile are paths; "" means none.
	CAFile, CertFile, KeyFile string `json:"-"`
}

// files of the store, by their names in the file and in the folder of a plane.
func (s *Store) files() map[string]*string {
	return map[string]*string{"etcd-ca.crt": &s.CAFile, "etcd-client.crt": &s.CertFile, "etcd-client.key": &s.KeyFile}
}

// WriteJoinFile writes the file, for its owner alone, with the keys of a plane.
func WriteJoinFile(path string, s Store, keys Folder, now time.Time) error {
	contents, err := keys.Lasting()
	if err != nil {
		return err
	}
	if contents["store"], err = json.Marshal(s); err != nil {
		return err
	}
	for name, file := range s.files() {
		if *file == "" {
			continue
		}
		if contents[name], err = os.ReadFile(*file); err != nil {
			return fmt.Errorf("read certificates of etcd: %w", err)
		}
	}
	h := sealedfile.Header{Created: now}
	for name, b := range contents {
		h.Contents = append(h.Contents, sealedfile.Bytes(name, b))
	}
	var b bytes.Buffer
	if err := sealedfile.Write(&b, kind, h); err != nil {
		return err
	}
	return atomicfile.Write(path, b.Bytes())
}

// UseJoinFile reads the file and puts what it has into a data directory. It returns how the
// store is reached from there.
func UseJoinFile(path string, dir datadir.Dir) (Store, error) {
	s, err := use(path, dir)
	if err != nil {
		return s, fmt.Errorf("join by %s: %w", path, err)
	}
	return s, nil
}

func use(path string, dir datadir.Dir) (s Store, err error) {
	if err := datadir.CheckPrivate(path); err != nil {
		return s, err
	}
	contents, err := read(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(contents["store"], &s); err != nil {
		return s, fmt.Errorf("read where the store is: %w", err)
	}
	if len(s.Servers) == 0 {
		return s, errors.New("it names no server of etcd")
	}
	keys := Folder{Dir: dir.PKI(), Now: time.Now}
	if err := keys.Take(contents); err != nil {
		return s, err
	}
	for name := range s.files() {
		if contents[name] == nil {
			continue
		}
		if err := atomicfile.Write(filepath.Join(dir.PKI(), name), contents[name]); err != nil {
			return s, err
		}
	}
	s.find(dir)
	return s, nil
}

// FoundStore has the paths of what Use has put into a data directory.
func FoundStore(dir datadir.Dir) Store {
	var s Store
	s.find(dir)
	return s
}

func (s *Store) find(dir datadir.Dir) {
	for name, file := range s.files() {
		path := filepath.Join(dir.PKI(), name)
		if _, err := os.Stat(path); err == nil {
			*file = path
		}
	}
}

func read(path string) (map[string][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read alone
	may := map[string]int64{}
	for _, name := range []string{"store", "ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "etcd-ca.crt", "etcd-client.crt", "etcd-client.key"} {
		may[name] = maxContent
	}
	contents := map[string][]byte{}
	_, err = sealedfile.Read(f, kind, may, func(name string, r io.Reader) (err error) {
		contents[name], err = io.ReadAll(r)
		return err
	})
	return contents, err
}
