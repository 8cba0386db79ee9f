// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// debian names the root of a Debian with systemd: what mmdebstrap makes.
const debian = "CAPSTAN_TEST_DEBIAN"

func TestSystemdBootsRebootsAndPowersOff(t *testing.T) {
	root := os.Getenv(debian)
	if root == "" {
		t.Skip("set " + debian + " to the root of a Debian with systemd")
	}
	b := newLab(t)
	const rtmin3 = 37 // has systemd power off
	s := Spec{
		Name: "one", Root: []string{root}, Args: []string{"/sbin/init", "--log-target=console"},
		Env: []string{"container=capstan"}, StopSignal: rtmin3, Memory: 512 << 20,
	}
	b.start(s)
	up := func() {
		t.Helper()
		b.await(func() error {
			var out bytes.Buffer
			_, err := b.Exec(t.Context(), "one", []string{"systemctl", "is-system-running"}, Streams{Out: &out, Err: &out})
			if got := strings.TrimSpace(out.String()); err == nil && got != "running" && got != "degraded" {
				err = errors.New(got)
			}
			return err
		})
	}
	up()
	var failed bytes.Buffer
	if _, err := b.Exec(t.Context(), "one", []string{"systemctl", "--failed", "--no-legend"}, Streams{Out: &failed}); err != nil || failed.Len() > 0 {
		t.Errorf("failed units: %s, %v", failed.String(), err)
	}
	if _, err := b.Exec(t.Context(), "one", []string{"systemctl", "reboot"}, Streams{}); err != nil && !errors.Is(err, ErrNotRunning) {
		t.Fatal(err)
	}
	b.await(func() error {
		got, err := b.Inspect("one")
		if err == nil && (got.State != Running || got.Boots != 2) {
			err = errors.New(string(got.State))
		}
		return err
	})
	up()
	if err := b.Stop(t.Context(), "one", time.Minute); err != nil {
		t.Fatal(err)
	}
	got, err := b.Inspect("one")
	if err != nil || got.State != Stopped || got.ExitCode != 0 || got.Message != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	b.awaitConsole("one", "Halting system.")
}
