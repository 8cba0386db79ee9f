// SPDX-License-Identifier: Apache-2.0

package podforward

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/streaming/pkg/httpstream"
)

// cut is a data stream that ends immediately.
type cut struct{ httpstream.Stream }

func (cut) Read([]byte) (int, error) { return 0, io.EOF }

// loose is a connection that can be closed.
type loose struct{ httpstream.Connection }

func (loose) Close() error { return nil }

func TestAReportMayComeAfterTheEndOfTheData(t *testing.T) {
	tests := map[string]struct {
		report string
		after  time.Duration
		want   string
	}{
		"a report that comes a moment later": {report: "connection refused", after: 10 * time.Millisecond, want: "connection refused"},
		"no report":                          {after: 10 * time.Millisecond, want: "EOF"},
		"a report after its timeout":         {report: "connection refused", after: 2 * reportTimeout, want: "EOF"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				errs, theirs := io.Pipe()
				s := &stream{Stream: cut{}, link: loose{}, pod: "a", told: make(chan struct{})}
				go s.listen(errs)
				go func() {
					time.Sleep(tc.after)
					_, _ = io.WriteString(theirs, tc.report)
					_ = theirs.Close()
				}()
				if _, err := s.Read(nil); err == nil || err.Error() != tc.want {
					t.Errorf("error %v, want %s", err, tc.want)
				}
				<-s.told
			})
		})
	}
}
