// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/internal/pure/chaos"
)

// header is the first line of a record: all that a run follows from.
type header struct {
	chaos.Options

	Plane    string          `json:"plane"`
	Began    time.Time       `json:"began"`
	Clusters []chaos.Cluster `json:"clusters"`
}

func (h header) machines() (n int) {
	for _, c := range h.Clusters {
		n += len(c.Machines)
	}
	return n
}

// entry is any other line: a step, and its result.
type entry struct {
	Time time.Time `json:"time"`
	chaos.Step
	Outcome string `json:"outcome"`
}

// record is a file of lines in JSON.
type record struct{ io.WriteCloser }

func newRecord(name string, h header) (*record, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the record: %w", err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin the record: %w", err)
	}
	r := &record{f}
	if err := r.add(h); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *record) add(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = r.Write(append(text, '\n'))
	return err
}

// maxHeader bounds the first line of a record in bytes: a hundred for each of 100,000 machines.
const maxHeader = 10 << 20

// readHeader reads what an earlier run followed from.
func readHeader(name string) (h header, err error) {
	f, err := os.Open(name)
	if err != nil {
		return h, fmt.Errorf("read the record: %w", err)
	}
	defer func() { _ = f.Close() }()
	line, err := bufio.NewReader(io.LimitReader(f, maxHeader)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	if err != nil || len(h.Clusters) == 0 {
		return h, fmt.Errorf("%s is no record of an earlier run", name)
	}
	return h, limit(h.Options)
}
