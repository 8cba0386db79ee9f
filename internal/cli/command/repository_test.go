// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRepositoriesAreReachedAsTheEnvironmentSays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		environment      map[string]string
		cache, overrides string
	}{
		"of a home":        {map[string]string{"HOME": "/h"}, "/h/.cache/capstan/releases", "/h/.config/cluster-api/overrides"},
		"of its own":       {map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/c", "OVERRIDESFOLDER": "/o"}, "/c/capstan/releases", "/o"},
		"without a home":   {nil, "", ""},
		"of no one folder": {map[string]string{"XDG_CACHE_HOME": "c"}, "", ""},
	} {
		env := &Env{LookupEnv: lookup(tc.environment)}
		o, err := env.Repositories()
		if err != nil || o.Cache != tc.cache || o.Overrides != tc.overrides || o.GoProxy != goProxy {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

// The linker is silent about a variable that it does not find.
func TestTheBuildLinksWhatGoHasForGOPROXY(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "-X github.com/capstan-dev/capstan/internal/cli/command.goProxy=$(shell env -u GOPROXY GOENV=off go env GOPROXY)"
	if !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile does not have %q", want)
	}
}
