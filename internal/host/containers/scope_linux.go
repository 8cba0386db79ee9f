// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"fmt"
	"math"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
)

// startScope has systemd of the host put a process into a separate scope, whose
// control groups it delegates to this program. The scope ends with its last
// process.
func startScope(ctx context.Context, scope string, pid int) error {
	conn, err := systemd.NewSystemdConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("ask systemd for a control group: %w", err)
	}
	defer conn.Close()
	property := func(name string, value any) systemd.Property {
		return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	result := make(chan string, 1)
	_, err = conn.StartTransientUnitContext(ctx, scope, "fail", []systemd.Property{
		systemd.PropDescription("A container of Capstan"),
		systemd.PropSlice(scopeSlice),
		property("PIDs", []uint32{uint32(pid)}),
		property("Delegate", true),
		property("TasksMax", uint64(math.MaxUint64)), // no limit
		property("CollectMode", "inactive-or-failed"),
	}, result)
	if err != nil {
		return fmt.Errorf("ask systemd for scope %s: %w", scope, err)
	}
	select {
	case r := <-result:
		if r != "done" {
			return fmt.Errorf("ask systemd for scope %s: its job is %s: see systemctl status %s", scope, r, scope)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ask systemd for scope %s: %w", scope, context.Cause(ctx))
	}
}
