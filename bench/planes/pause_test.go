// SPDX-License-Identifier: Apache-2.0

package planes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPauseLastsItsTimeOrUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		asked, ends time.Duration
		want        time.Duration
		wantErr     error
	}{
		"it lasts its time":       {time.Minute, time.Hour, time.Minute, nil},
		"its context ends before": {time.Hour, time.Minute, time.Minute, context.DeadlineExceeded},
		"none":                    {0, time.Hour, 0, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.ends)
				defer cancel()
				begin := time.Now()
				err := Pause(ctx, tc.asked)
				if took := time.Since(begin); took != tc.want || !errors.Is(err, tc.wantErr) {
					t.Errorf("%s, %v, want %s, %v", took, err, tc.want, tc.wantErr)
				}
			})
		})
	}
}
