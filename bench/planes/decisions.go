// SPDX-License-Identifier: Apache-2.0

package planes

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/rest"
)

// Decisions are the recorded decisions of the controllers of a plane.
type Decisions struct {
	Count int `json:"count"`
	KiB   int `json:"kib"`
}

// Recorded counts the decisions that a plane has recorded. It costs the plane CPU time,
// so it must not be called within a measured window.
func Recorded(ctx context.Context, c rest.Interface) (d Decisions, err error) {
	text, err := c.Get().AbsPath("/capstan/v1/decisions/").DoRaw(ctx)
	if err != nil {
		return d, fmt.Errorf("read the recorded decisions: %w", err)
	}
	var all struct{ Decisions []json.RawMessage }
	err = json.Unmarshal(text, &all)
	return Decisions{Count: len(all.Decisions), KiB: len(text) >> 10}, err
}
