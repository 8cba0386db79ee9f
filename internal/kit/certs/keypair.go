// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// lookEvery is the least time between two checks of the files.
	lookEvery = time.Second
	// settled is the age from which a file whose metadata is unchanged is the same;
	// two writes in one tick of the file system's clock cannot be distinguished.
	settled = 2 * time.Second
	// maxFileBytes is more than any chain of certificates needs.
	maxFileBytes = 1 << 20
)

// Files is a certificate and its key in two PEM files. Open creates it; it may be
// used by many goroutines.
type Files struct {
	certFile, keyFile string
	clock             clock.PassiveClock
	report            func(error)

	// mu guards what is below.
	mu       sync.Mutex
	looked   time.Time
	seen     [2]os.FileInfo // the files that pair was read from
	sure     bool           // no write can have escaped us
	pair     *tls.Certificate
	reported string
}

// Option is a choice at Open.
type Option func(*Files)

// OnError sets a function that is called when the files can no longer be used and
// the last valid pair is served in their place: once for each new reason, not at
// each check. It is called during the check and must not call back.
func OnError(report func(error)) Option {
	return func(f *Files) { f.report = report }
}

// OpenFiles reads both files. It fails, and names the file, when one is missing or
// is not what it should be, or when the key is not that of the certificate.
func OpenFiles(certFile, keyFile string, c clock.PassiveClock, opts ...Option) (*Files, error) {
	f := &Files{certFile: certFile, keyFile: keyFile, clock: c, report: func(error) {}}
	for _, opt := range opts {
		opt(f)
	}
	f.looked = c.Now()
	seen, err := f.stat()
	if err != nil {
		return nil, err
	}
	if f.pair, err = load(certFile, keyFile); err != nil {
		return nil, err
	}
	f.seen, f.sure = seen, f.old(seen)
	return f, nil
}

// Certificate is the pair in the files, or the last good one while they hold
// none: a renewal writes one file after the other. After Open it never fails.
func (f *Files) Certificate() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// A clock that was set back must not keep us from looking for long.
	if since := f.clock.Since(f.looked); since >= 0 && since < lookEvery {
		return f.pair, nil
	}
	f.looked = f.clock.Now()
	if err := f.look(); err != nil {
		if text := err.Error(); text != f.reported {
			f.reported = text
			f.report(fmt.Errorf("keep serving the certificate read before: %w", err))
		}
		return f.pair, nil
	}
	f.reported = ""
	return f.pair, nil
}

// look reads a new pair from the files if they have changed. Invalid files are read
// again at each check.
func (f *Files) look() error {
	seen, err := f.stat() // before reading: a write meanwhile shows at the next check
	if err != nil {
		return err
	}
	if sameFile(seen[0], f.seen[0]) && sameFile(seen[1], f.seen[1]) && f.sure {
		return nil
	}
	sure := f.old(seen)
	pair, err := load(f.certFile, f.keyFile)
	if err != nil {
		return err
	}
	f.pair, f.seen, f.sure = pair, seen, sure
	return nil
}

// old reports whether the files have not been written to for a while.
func (f *Files) old(infos [2]os.FileInfo) bool {
	for _, info := range infos {
		if age := f.looked.Sub(info.ModTime()); age >= 0 && age < settled {
			return false
		}
	}
	return true
}

func (f *Files) stat() (infos [2]os.FileInfo, err error) {
	if infos[0], err = stat(f.certFile); err != nil {
		return infos, fmt.Errorf("check certificate file: %w", err)
	}
	if infos[1], err = stat(f.keyFile); err != nil {
		return infos, fmt.Errorf("check key file: %w", err)
	}
	return infos, nil
}

func stat(name string) (os.FileInfo, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, &os.PathError{Op: "stat", Path: name, Err: errors.New("not a regular file")}
	}
	return info, err
}

// sameFile compares the results of stat for the target of a path; a volume of a Secret
// is renewed by changing the target of a symbolic link.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// load checks each file alone before both together, so that an error names the file
// that caused it.
func load(certFile, keyFile string) (*tls.Certificate, error) {
	certPEM, err := read(certFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate file: %w", err)
	}
	keyPEM, err := read(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	block := find(certPEM, func(kind string) bool { return kind == "CERTIFICATE" })
	if block == nil {
		return nil, fmt.Errorf("certificate file %s holds no PEM certificate", certFile)
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("parse certificate file %s: %w", certFile, err)
	}
	if find(keyPEM, func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") }) == nil {
		return nil, fmt.Errorf("key file %s holds no PEM private key", keyFile)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate file %s and key file %s are no pair: %w", certFile, keyFile, err)
	}
	return &pair, nil
}

// find returns the first block of a wanted kind, or nil.
func find(data []byte, wanted func(kind string) bool) *pem.Block {
	for {
		block, rest := pem.Decode(data)
		if block == nil || wanted(block.Type) {
			return block
		}
		data = rest
	}
}

func read(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, &os.PathError{Op: "read", Path: name, Err: errors.New("larger than a megabyte")}
	}
	return data, nil
}
