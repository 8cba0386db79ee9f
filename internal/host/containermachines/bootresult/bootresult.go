// SPDX-License-Identifier: Apache-2.0

// Package bootresult reports the result of a machine's bootstrap data from the files
// that the machine left behind. All of that is written by the machine, which is not
// trusted; and the bootstrap data is secret, so none of it is reported.
package bootresult

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// The files in which a machine reports its result.
const (
	// Sentinel exists when the bootstrap data has run to its end.
	Sentinel = "/run/cluster-api/bootstrap-success.complete"
	// Result is written by cloud-init when it has finished.
	Result = "/run/cloud-init/result.json"
	// Status is how far cloud-init is.
	Status = "/run/cloud-init/status.json"
	// Output is what its commands wrote, in /var.
	Output = "log/cloud-init-output.log"
)

const (
	// maxLines and maxBytes limit the report of why a machine failed.
	maxLines = 12
	maxBytes = 2000
	// longest is how much text is searched for secrets: the machine wrote both.
	longest = 4 * maxBytes
	// least is how long a word must be to be taken for a secret: shorter ones are
	// those of every sentence.
	least = 5
)

// Failure describes why bootstrap data failed: what cloud-init counts as errors,
// and the last lines that commands wrote. Words that are in the data are omitted.
func Failure(result, output, data []byte) string {
	hide := secrets(data)
	message := "cloud-init ended without " + Sentinel
	if errs, err := errorsOf(result); err != nil {
		message += ": " + err.Error()
	} else if len(errs) > 0 {
		message += ": " + hide(strings.Map(printable, strings.Join(errs, "; ")))
	}
	return bounded(message + lastLines(output, hide))
}

// Late reports that bootstrap data has timed out, and its last stage.
func Late(had time.Duration, status, output, data []byte) string {
	message := fmt.Sprintf("the bootstrap data has run for %s without making %s", had, Sentinel)
	var s struct {
		V1 struct {
			Stage string `json:"stage"`
		} `json:"v1"`
	}
	if json.Unmarshal(status, &s) == nil && stage().MatchString(s.V1.Stage) {
		message += ": cloud-init is at its stage " + s.V1.Stage
	}
	return bounded(message + lastLines(output, secrets(data)))
}

// stage is the name of a stage of cloud-init, such as modules-final. Its writer is
// not trusted.
var stage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]{1,12}(-[a-z]{1,12})?$`) })

// lastLines are what commands wrote last.
func lastLines(output []byte, hide func(string) string) string {
	lines := tail(string(output))
	if len(lines) == 0 {
		return ""
	}
	return "; the last lines of its commands:\n" + hide(strings.Join(lines, "\n"))
}

func bounded(message string) string {
	if len(message) > maxBytes {
		return strings.ToValidUTF8(message[:maxBytes], "") + " ..."
	}
	return message
}

// errorsOf reads cloud-init's own list of what went wrong.
func errorsOf(result []byte) ([]string, error) {
	var r struct {
		V1 struct {
			Errors []string `json:"errors"`
		} `json:"v1"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return nil, errors.New("its result cannot be read") // what is quoted in err might be anything
	}
	return r.V1.Errors, nil
}

// tail is the end of a log, without what is for terminals.
func tail(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRightFunc(strings.Map(printable, line), unicode.IsSpace)
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-maxLines):]
}

func printable(r rune) rune {
	if unicode.IsSpace(r) {
		return ' '
	}
	if !unicode.IsPrint(r) {
		return -1
	}
	return r
}

var (
	// word is what data and messages are split into.
	word = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^\s"'` + "`" + `=,;:()\[\]{}<>|&]+`) })
	// harmless are words that describe the stage of a machine, and are in data of
	// all machines.
	harmless = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(/(run|etc|var/lib|usr|opt)/[-a-z./]+|[0-9]{1,3}(\.[0-9]{1,3}){3}|v1\.[0-9]+\.[0-9]+|[0-9]{1,5}|kubeadm|kubelet|kubernetes|kubectl|containerd|systemctl|systemd|cloud-init|cluster|control-plane|node|join|init|token|error|failed|config|runcmd|bootcmd|write_files|apiVersion|kind|--?[a-z-]+)$`)
	})
	// token is one that kubeadm generates, for any origin of it.
	token = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`) })
	// long is what only keys and certificates are.
	long = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z0-9+/=_-]{40,}`) })
)

// hidden replaces what is not reported.
const hidden = "[...]"

// secrets returns what leaves out of a text what is in the data.
func secrets(data []byte) func(string) string {
	found := map[string]bool{}
	for _, w := range word().FindAllString(string(data), -1) {
		if len(w) >= least && !harmless().MatchString(w) {
			found[w] = true
		}
	}
	var inside []string // of words, longest first, so that none hides a part of another
	for w := range found {
		inside = append(inside, w)
	}
	slices.SortFunc(inside, func(a, b string) int { return len(b) - len(a) })
	return func(text string) string {
		if len(text) > longest { // half a word would not be recognized
			text = text[:strings.LastIndexFunc(text[:longest], unicode.IsSpace)+1]
		}
		inside := slices.DeleteFunc(slices.Clone(inside), func(s string) bool { return !strings.Contains(text, s) })
		text = word().ReplaceAllStringFunc(text, func(w string) string {
			if harmless().MatchString(w) {
				return w
			}
			for _, s := range inside {
				w = strings.ReplaceAll(w, s, hidden)
			}
			return w
		})
		return Mask(text)
	}
}

// Mask replaces what looks like a token or a key in a text.
func Mask(text string) string {
	return long().ReplaceAllString(token().ReplaceAllString(text, hidden), hidden)
}

// Waiting describes the stage of a machine that runs its data since a time, and its
// timeout.
func Waiting(name string, since time.Time, patience time.Duration) string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return fmt.Sprintf("cloud-init to run the bootstrap data, since %s and until %s at most; \"capstan logs machine %s\" shows its console", at(since), at(since.Add(patience)), name)
}
