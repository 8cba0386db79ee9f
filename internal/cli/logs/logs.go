// SPDX-License-Identifier: Apache-2.0

// Package logs holds the command that shows the log of a plane.
package logs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

type options struct {
	dir       string
	namespace string
	follow    bool
	since     time.Duration
	tail      int
	output    string
}

// New returns the command logs.
func New(env *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Show the log of the management plane, or what of it is about a cluster",
		Long: `Show the log of a management plane of this host, whether it runs or not. With the
name of a cluster, only what the controllers logged about that is shown.`,
		Example: `  capstan logs --since 10m
  capstan logs demo --follow
  capstan logs demo --tail 20 -o json`,
		Args: cobra.ArbitraryArgs, // a name is no command below this one
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Misuse(errors.New("the name of one cluster is needed, or none"))
			}
			if err := errors.Join(command.RefuseEmpty(cmd.Flags()), command.CheckOutput(o.output, "json")); err != nil {
				return err
			}
			if cmd.Flags().Changed("tail") && o.tail < 0 || o.since < 0 {
				return command.Misuse(errors.New("--tail and --since cannot be less than 0"))
			}
			cluster := ""
			if len(args) == 1 {
				cluster = o.namespace + "/" + args[0]
			}
			return run(cmd.Context(), env, o, cluster)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "data-dir", env.DefaultDataDir(), "data directory of the plane")
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the cluster")
	f.BoolVarP(&o.follow, "follow", "f", false, "show what is logged from now on, too")
	f.DurationVar(&o.since, "since", 0, "show only what is not older, such as 10m")
	f.IntVar(&o.tail, "tail", -1, "show at most so many entries of what there is")
	command.OutputFlag(cmd, &o.output, "the lines as they are", "json")
	cmd.AddCommand(newMachine(env), newProvider(env))
	return cmd
}

func run(ctx context.Context, env *command.Env, o options, cluster string) error {
	path, err := FileOf(o.dir)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no log of a plane in %s: `capstan up --data-dir %[1]s` starts one, and --data-dir chooses another", o.dir)
	}
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = f.Close() }()
	s := &selection{env: env, o: o, cluster: cluster}
	if o.since > 0 {
		s.from = env.Now().Add(-o.since)
	}
	if err := s.all(ctx, f); err != nil {
		return err
	}
	if s.found == 0 && cluster != "" && !o.follow {
		env.Say("Nothing in %s is about Cluster %s", path, cluster)
	}
	return nil
}

// FileOf is where the plane of a data directory logs to, or did last.
func FileOf(dir string) (string, error) {
	if dir == "" {
		return "", command.Misuse(errors.New("--data-dir is needed: neither XDG_DATA_HOME nor HOME is set"))
	}
	holder, _, err := datadir.Running(datadir.Dir(dir))
	if err != nil {
		return "", err
	}
	switch file := holder.Flags["log-file"]; file {
	case "":
		return datadir.Dir(dir).Log(), nil
	case "-":
		return "", fmt.Errorf("the plane on %s logs to its own stderr, as --log-file - says: its log is not kept", dir)
	default:
		return file, nil
	}
}

// selection is what is shown of a log.
type selection struct {
	env     *command.Env
	o       options
	cluster string
	from    time.Time
	before  time.Time // of the entry before
	found   int
	last    []entry // those of the tail, until the end is reached
	passed  bool    // the end was reached
}

// look is how often a file is checked for more: nothing portable reports when a
// file grows, and a check costs next to nothing.
const look = 200 * time.Millisecond

// all shows a log, and what is added to it with --follow.
func (s *selection) all(ctx context.Context, f *os.File) error {
	lines := bufio.NewReader(f)
	var text, part strings.Builder // an entry, and an incomplete line
	for {
		line, err := lines.ReadString('\n')
		part.WriteString(line)
		if err == nil {
			if begins(part.String()) && text.Len() > 0 {
				if err := s.add(text.String()); err != nil {
					return err
				}
				text.Reset()
			}
			text.WriteString(part.String())
			part.Reset()
			continue
		}
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the log: %w", err)
		}
		// What is at the end is complete except for lines that may still follow:
		// they do so immediately.
		if !s.o.follow {
			text.WriteString(part.String())
		}
		if text.Len() > 0 {
			if err := s.add(text.String()); err != nil {
				return err
			}
			text.Reset()
		}
		if err := s.end(); err != nil || !s.o.follow {
			return err
		}
		if lifecycle.Sleep(ctx, look) != nil {
			return nil
		}
		if again, err := s.restarted(f); err != nil {
			return err
		} else if again {
			lines.Reset(f)
			part.Reset()
		}
	}
}

// restarted seeks to the start of a file that was truncated.
func (s *selection) restarted(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("check the log: %w", err)
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || info.Size() >= at {
		return false, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return true, err
}

// add adds an entry, which is shown immediately if the end was reached or all are.
func (s *selection) add(text string) error {
	e := parse(strings.TrimSuffix(text, "\n"), s.env.Now())
	at := e.Time
	if at.IsZero() {
		at = s.before // an entry without a time follows the one before it
	}
	s.before = at
	if s.cluster != "" && !e.of(s.cluster) || !s.from.IsZero() && at.Before(s.from) {
		return nil
	}
	s.found++
	if s.o.tail < 0 || s.passed {
		return s.show(e)
	}
	if s.last = append(s.last, e); len(s.last) > s.o.tail {
		s.last = s.last[1:]
	}
	return nil
}

// end shows the tail.
func (s *selection) end() error {
	s.passed = true
	for _, e := range s.last {
		if err := s.show(e); err != nil {
			return err
		}
	}
	s.last = nil
	return nil
}

func (s *selection) show(e entry) error {
	text := sanitize.Escape(strings.ReplaceAll(e.text, "\t", "    "))
	if s.o.output == "json" {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		text = string(line)
	}
	_, err := io.WriteString(s.env.Out, text+"\n")
	return err
}
