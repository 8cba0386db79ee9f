// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxWindow is the memory limit of decompression. Compressors of public archives
// use 8 MiB.
const maxWindow = 128 << 20

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// Decompress decompresses r, which may use gzip, Zstandard or no compression. It
// detects the format from the first bytes. It does not close r.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReader(r)
	start, err := buffered.Peek(len(zstdMagic))
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	switch {
	case bytes.HasPrefix(start, gzipMagic):
		return gzip.NewReader(buffered)
	case bytes.Equal(start, zstdMagic):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(buffered), nil
}
