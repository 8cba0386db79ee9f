// SPDX-License-Identifier: Apache-2.0

package history

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/access/replay"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// maxReplayed is the size of the decompressed input of replay, in bytes: twice that of all
// decisions of a plane with the objects of a large fleet.
const maxReplayed = 256 << 20

// decisionsFile is the file of a report with the decisions.
const decisionsFile = "decisions.json"

// NewReplay returns the command replay.
func NewReplay(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE",
		Short: "Make recorded decisions again and show which differ",
		Long: `Make the decisions of a report, or of the output of history -o json, again with the
planners of this version, and show which differ. Nothing is read but the file, and
nothing is changed.

The status is 1 if any decision differs.`,
		Example: `  capstan report support.tar.gz && capstan replay support.tar.gz
  capstan history md/demo-workers -o json > decisions.json && capstan replay decisions.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Misuse(errors.New("name one file that report or history -o json has written"))
			}
			return runReplay(cmd.Context(), env, args[0])
		},
	}
}

func runReplay(ctx context.Context, env *command.Env, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	all, err := readFile(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	differ, skipped := 0, 0
	for _, d := range all {
		switch again := replay.Again(ctx, d); {
		case again.Skipped != "":
			skipped++
			env.Say("Skipped: %s: %s", title(d), sanitize.Line(again.Skipped, maxLine))
		case !again.Same:
			differ++
			env.Print("%s", title(d))
			printPlan(env, "recorded", d.Plan, d.Error)
			printPlan(env, "now", again.Plan, again.Error)
		}
	}
	env.Say("%d decisions are the same, %d differ, %d skipped", len(all)-differ-skipped, differ, skipped)
	if differ > 0 {
		return fmt.Errorf("this version decides otherwise in %d of %d cases", differ, len(all)-skipped)
	}
	return nil
}

// title names a decision in one line.
func title(d decisions.Decision) string {
	return sanitize.Line(fmt.Sprintf("%s  %s  %s %s/%s", d.Time.UTC().Format(time.RFC3339), d.Controller, d.Object.Kind, d.Object.Namespace, d.Object.Name), maxLine)
}

func printPlan(env *command.Env, when string, plan json.RawMessage, failure string) {
	for _, line := range decisions.Words(plan) {
		env.Print("    %s: %s", when, sanitize.Line(line, maxLine))
	}
	if failure != "" {
		env.Print("    %s: error: %s", when, sanitize.Line(failure, maxLine))
	}
}

// readFile reads the decisions of a report, or of the output of history.
func readFile(f io.Reader) ([]decisions.Decision, error) {
	in := bufio.NewReader(f)
	if magic, _ := in.Peek(2); string(magic) != "\x1f\x8b" {
		return readList(&limited{in, maxReplayed})
	}
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	files := tar.NewReader(&limited{unzipped, maxReplayed})
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it has no file %s: use a file that `capstan report` has written", decisionsFile)
		}
		if err != nil {
			return nil, err
		}
		if h.Name == decisionsFile && h.Typeflag == tar.TypeReg {
			return readList(files)
		}
	}
}

// readList reads the output of history.
func readList(in io.Reader) ([]decisions.Decision, error) {
	var found decisions.List
	if err := json.NewDecoder(in).Decode(&found); err != nil {
		return nil, err
	}
	if found.Decisions == nil {
		return nil, errors.New("it has no list of decisions: use a file that `capstan report` or `capstan history -o json` has written")
	}
	return found.Decisions, nil
}

// limited fails instead of reading more than left bytes.
type limited struct {
	in   io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("it has more than %d MiB", maxReplayed>>20)
	}
	n, err := l.in.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
