// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
)

// watchOld watches all Machines at v1beta1 from now on, and reads the events. It ends
// with the plane.
func (b *bench) watchOld(ctx context.Context, _ *Result) error {
	if !b.scenario.OldWatcher {
		return nil
	}
	stream, err := b.raw.Get().AbsPath("/apis/cluster.x-k8s.io/v1beta1/machines").Param("watch", "true").Stream(ctx)
	if err != nil {
		return fmt.Errorf("watch Machines at v1beta1: %w", err)
	}
	go func() {
		defer func() { _ = stream.Close() }()
		_, _ = io.Copy(io.Discard, stream) // any end is that of the plane
	}()
	return nil
}
