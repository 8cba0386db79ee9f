// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Compress returns a writer in the format that the name of a file ends with.
func Compress(w io.Writer, file string) (io.WriteCloser, error) {
	switch {
	case strings.HasSuffix(file, ".tar"):
		return struct {
			io.Writer
			io.Closer
		}{w, io.NopCloser(nil)}, nil
	case strings.HasSuffix(file, ".tar.gz"), strings.HasSuffix(file, ".tgz"):
		return gzip.NewWriter(w), nil
	case strings.HasSuffix(file, ".tar.zst"):
		return zstd.NewWriter(w)
	}
	return nil, fmt.Errorf("%s has no known format: end it with .tar, .tar.gz or .tar.zst", file)
}

// Export writes the image as one archive in the OCI layout. It fails if the image does
// not match its ID.
func (i Image) Export(ctx context.Context, w io.Writer) error {
	if err := i.store.images.Export(ctx, i.record, nameOf(i.Version), w); err != nil {
		return fmt.Errorf("export node image %s: %w", i.ID, err)
	}
	return nil
}

// VersionIn returns the version in the name of a node image, if such a name is among
// those of an image.
func VersionIn(all []string) (version string, found bool) {
	for _, name := range all {
		if version, found = strings.CutPrefix(name, names); found {
			break
		}
	}
	return version, found
}
