// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"testing"
)

func TestUnwindRunsAllInReverse(t *testing.T) {
	var s Stack
	var got string
	for _, n := range []string{"etcd", "apiserver", "manager"} {
		s.Push(n, func(context.Context) error {
			got += n + " "
			if n == "apiserver" {
				return errors.New("boom")
			}
			return nil
		})
	}
	err := s.Unwind(t.Context())
	if got != "manager apiserver etcd " || err == nil || err.Error() != "stop apiserver: boom" {
		t.Errorf("order %q, error %v", got, err)
	}
	if s.Unwind(t.Context()) != nil {
		t.Error("second Unwind did something")
	}
}
