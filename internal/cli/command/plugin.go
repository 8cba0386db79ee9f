// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Plugin is a program, and what it is called with.
type Plugin struct {
	path string
	args []string
}

// FindPlugin searches PATH for the program of a command line: the one with most of its
// words as a name. Flags before the name belong to built-in commands. Programs that
// were written for clusterctl are found as well.
func FindPlugin(env *Env, args []string) (Plugin, bool) {
	words := args
	if i := slices.IndexFunc(args, endsName); i >= 0 {
		words = args[:i]
	}
	for n := len(words); n > 0; n-- {
		// A dash parts words, so that one in a word is another character.
		name := strings.ReplaceAll(strings.Join(words[:n], " "), "-", "_")
		for _, prefix := range []string{env.Name, "capstan", "clusterctl"} {
			if path := look(env.Getenv("PATH"), prefix+"-"+strings.ReplaceAll(name, " ", "-")); path != "" {
				return Plugin{path, args[n:]}, true
			}
		}
	}
	return Plugin{}, false
}

// endsName reports whether a word cannot be part of the name of a program.
func endsName(word string) bool {
	return word == "" || strings.HasPrefix(word, "-") || strings.ContainsAny(word, " /"+string(filepath.Separator))
}

// look finds an executable file in the folders of path. A folder that depends on
// the working directory is skipped: any user may have written its files.
func look(path, name string) string {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) {
			continue
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// Exec replaces this program by the plugin, so that its exit status and its
// handling of signals are the plugin's. It returns only an error.
func (p Plugin) Exec() error {
	err := syscall.Exec(p.path, append([]string{p.path}, p.args...), os.Environ())
	return fmt.Errorf("run plugin %s: %w: is it a program for this machine, or a script that begins with #!?", p.path, err)
}
