// SPDX-License-Identifier: Apache-2.0

// Command bench runs a scenario against a fresh management plane, started as a
// separate process, and reports its cost: time, CPU, memory, and API requests by
// verb and resource as the API server itself counts them.
//
//	go run ./bench -scenario bench/scenarios/one.yaml
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/bench/planes"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // the warnings of an API server are not measured
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("bench", flag.ExitOnError)
	path := fs.String("scenario", "bench/scenarios/one.yaml", "scenario file")
	binary := fs.String("capstan", "bin/capstan", "the program to measure")
	dir := fs.String("dir", "", "data directory (default: a temporary one)")
	out := fs.String("json", "", "file to write the result to, as JSON; - for stdout instead of the table")
	images := fs.String("images", "", "folder of node images, for container machines")
	flags := fs.String("up", "", "further flags for capstan up, separated by blanks")
	profiles := fs.String("profiles", "", "directory to write CPU profiles of both planes and of the client to while clusters move")
	clusters := fs.Int("clusters", 0, "number of clusters instead of the scenario's, and of plain ones if those were as many")
	if err := fs.Parse(args); err != nil {
		return err
	}
	s, err := load(*path)
	if err != nil {
		return err
	}
	if *clusters > 0 {
		s.resize(*clusters)
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "capstan-bench-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(*dir) }()
	}
	b := &bench{scenario: s, binary: *binary, dir: *dir, flags: strings.Fields(*flags), profiler: planes.Profiler{Dir: *profiles}}
	if s.Containers {
		remove, err := b.useContainers(*images)
		if err != nil {
			return err
		}
		defer remove()
	}
	result, err := b.run(ctx)
	if result == nil {
		return err
	}
	// What was measured before a failure is worth seeing.
	return errors.Join(err, write(result, *out), result.check(s.Limits))
}

func write(r *Result, path string) error {
	doc, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	doc = append(doc, '\n')
	if path == "-" {
		_, err := os.Stdout.Write(doc)
		return err
	}
	if path != "" {
		if err := os.WriteFile(path, doc, 0o644); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return r.table(os.Stdout)
}
