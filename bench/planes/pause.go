// SPDX-License-Identifier: Apache-2.0

package planes

import (
	"context"
	"time"
)

// Pause returns after a time, immediately if that is 0 or less, or earlier with the
// error of a context that ends.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
