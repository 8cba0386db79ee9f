// SPDX-License-Identifier: Apache-2.0

package buildcache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write returns a step that counts its executions.
func write(count *int, text string, inputs ...string) Step {
	return Step{Name: "text", Inputs: inputs, Make: func(_ context.Context, dir string) error {
		*count++
		return os.WriteFile(filepath.Join(dir, "text"), []byte(text), 0o600)
	}}
}

func open(t *testing.T, dir string) *Cache {
	t.Helper()
	c, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAStepIsMadeOnceForItsInputs(t *testing.T) {
	t.Parallel()
	dir, made := t.TempDir(), 0
	c := open(t, dir)
	var told []string
	c.Progress = func(line string) { told = append(told, line) }
	first, err := c.Do(t.Context(), write(&made, "one", "a"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Do(t.Context(), write(&made, "other", "a"))
	if err != nil || again != first || made != 1 {
		t.Errorf("the second time: %v, %v, made %d times; want %v, made once", again, err, made, first)
	}
	other, err := c.Do(t.Context(), write(&made, "other", "a", "b"))
	if err != nil || made != 2 || other.Digest == first.Digest {
		t.Errorf("with other inputs: %v, %v, made %d times", other, err, made)
	}
	_ = c.Close() // represents another process
	c = open(t, dir)
	c.Progress = func(line string) { told = append(told, line) }
	if o, err := c.Do(t.Context(), write(&made, "one", "a")); err != nil || o != first || made != 2 {
		t.Errorf("another process: %v, %v, made %d times", o, err, made)
	}
	if diff := cmp.Diff([]string{"text ...", "text ...", "text is there"}, told); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestStepRebuildsChangedOutcome(t *testing.T) {
	t.Parallel()
	dir, made := t.TempDir(), 0
	c := open(t, dir)
	o, err := c.Do(t.Context(), write(&made, "one"))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close() // represents another process
	c = open(t, dir)
	if err := os.WriteFile(filepath.Join(o.Dir, "text"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := c.Do(t.Context(), write(&made, "one"))
	if err != nil || again != o || made != 2 {
		t.Errorf("got %v, %v, made %d times; want %v, made twice", again, err, made, o)
	}
}

func TestInterruptedStepResumesIfPossible(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		resumes bool
		want    string
	}{
		"a step that resumes": {true, "half,whole"},
		"one that does not":   {false, "whole"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, failed := t.TempDir(), errors.New("pulled the plug")
			step := Step{Name: "download", Resumes: tc.resumes, Make: func(_ context.Context, dir string) error {
				return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o600), failed)
			}}
			c := open(t, dir)
			if _, err := c.Do(t.Context(), step); !errors.Is(err, failed) || !strings.HasPrefix(err.Error(), "make download: ") {
				t.Fatalf("got %v, want that of the step, with its name", err)
			}
			_ = c.Close() // represents the end of the process
			step.Make = func(_ context.Context, dir string) error {
				return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o600)
			}
			o, err := open(t, dir).Do(t.Context(), step)
			if err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(o.Dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if strings.Join(got, ",") != tc.want {
				t.Errorf("it has %v, want %s", got, tc.want)
			}
		})
	}
}

func TestStepsStartNothingAfterCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	made := 0
	if _, err := open(t, t.TempDir()).Do(ctx, write(&made, "")); !errors.Is(err, why) || made > 0 {
		t.Errorf("made %d times, %v; want not, because of %v", made, err, why)
	}
}

func TestOneProcessAtATimeWorksInACache(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := open(t, dir)
	if _, err := Open(dir, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
	if err := Clear(dir); !errors.Is(err, ErrBusy) {
		t.Errorf("clear it: got %v, want ErrBusy", err)
	}
	_ = c.Close()
	if err := Clear(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := Clear(dir); err != nil {
		t.Errorf("clear it again: %v", err)
	}
}
