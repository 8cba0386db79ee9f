// SPDX-License-Identifier: Apache-2.0

package containerhost

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestAHostSaysWhetherItHasRoom(t *testing.T) {
	t.Parallel()
	if err := room(1); err != nil {
		t.Errorf("for one: %v", err)
	}
	text, err := os.ReadFile(limitOfInstances)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if limit > 10_000 {
		t.Skipf("the limit of %d is more than is worth trying", limit)
	}
	for range 2 { // nothing is left of the first try
		if err := room(limit + 1); err == nil || !strings.Contains(err.Error(), "set the sysctl fs.inotify.max_user_instances to 1024 or more (it is "+strconv.Itoa(limit)+")") {
			t.Errorf("for more than there can be: %v", err)
		}
	}
	if err := room(1); err != nil {
		t.Errorf("for one again: %v", err)
	}
}
