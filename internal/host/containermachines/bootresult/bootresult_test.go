// SPDX-License-Identifier: Apache-2.0

package bootresult

import (
	"strings"
	"testing"
	"time"
)

const data = `## template: jinja
#cloud-config
write_files:
- path: /run/kubeadm/kubeadm.yaml
  permissions: '0640'
  content: |
    token: abcdef.0123456789abcdef
    password: hunter2
    certificateKey: 8fb1c0ffee
    caCertHashes: ["sha256:77ab"]
    apiServerEndpoint: 10.208.0.1:6443
runcmd:
- kubeadm join --config /run/kubeadm/kubeadm.yaml && echo success > /run/cluster-api/bootstrap-success.complete
- curl -u me:s3cr3tpw https://files.example.com/x
`

func TestFailureHasReasonButNoData(t *testing.T) {
	t.Parallel()
	const ended = "cloud-init ended without /run/cluster-api/bootstrap-success.complete"
	for name, tc := range map[string]struct{ result, output, want string }{
		"nothing was written": {`{"v1": {"errors": []}}`, "", ended},
		"what cloud-init says": {
			`{"v1": {"errors": ["('scripts_user', RuntimeError('Runparts: 1 failures (runcmd) in 1 attempted commands'))"]}}`, "",
			ended + ": ('scripts_user', RuntimeError('Runparts: 1 failures (runcmd) in 1 attempted commands'))",
		},
		"the last lines": {
			`{"v1": {}}`, "[preflight] Running pre-flight checks\nerror execution phase preflight: couldn't validate 10.208.0.1:6443\n",
			ended + "; the last lines of its commands:\n[preflight] Running pre-flight checks\nerror execution phase preflight: couldn't validate 10.208.0.1:6443",
		},
		"secrets of the data": {
			`{"v1": {"errors": ["password: hunter2"]}}`, "+ curl -u me:s3cr3tpw\ntoken \"abcdef.0123456789abcdef\" of x8fb1c0ffeex in /run/kubeadm/kubeadm.yaml\n",
			ended + ": [...]: [...]; the last lines of its commands:\n+ curl -u me:[...]\ntoken \"[...]\" of x[...]x in /run/kubeadm/kubeadm.yaml",
		},
		"secrets that were made": {
			`{}`, "kubeadm join --token zzzzzz.0123456789abcdef --key " + strings.Repeat("4a", 32),
			ended + "; the last lines of its commands:\nkubeadm join --token [...] --key [...]",
		},
		"what is for terminals in errors": {`{"v1": {"errors": ["\u001b]0;title\u0007\r\nred", "two\tthree"]}}`, "", ended + ": ]0;title  red; two three"},
		"what is for terminals":           {`{}`, "\x1b[1mred\x1b[0m\x00\r\n", ended + "; the last lines of its commands:\n[1mred[0m"},
		"what cannot be read":             {`{"v1": "hunter2`, "", ended + ": its result cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Failure([]byte(tc.result), []byte(tc.output), []byte(data)); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestAFailureIsBounded(t *testing.T) {
	t.Parallel()
	got := Failure([]byte("{}"), []byte(strings.Repeat("a line\n", 1000)), nil)
	if n := strings.Count(got, "a line"); n != maxLines {
		t.Errorf("%d lines, want %d", n, maxLines)
	}
	got = Failure([]byte("{}"), []byte(strings.Repeat("word ", 10000)), nil)
	if len(got) > maxBytes+4 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestLateBootReportsCurrentStep(t *testing.T) {
	t.Parallel()
	const ran = "the bootstrap data has run for 1m0s without making " + Sentinel
	for name, tc := range map[string]struct{ status, output, want string }{
		"nothing was written":          {"", "", ran},
		"a stage":                      {`{"v1": {"stage": "init-local"}}`, "", ran + ": cloud-init is at its stage init-local"},
		"none any more":                {`{"v1": {"stage": null}}`, "", ran},
		"what cloud-init never writes": {`{"v1": {"stage": "a password: hunter2"}}`, "", ran},
		"the last lines":               {`{"v1": {}}`, "waits for hunter2\n", ran + "; the last lines of its commands:\nwaits for [...]"},
	} {
		if got := Late(time.Minute, []byte(tc.status), []byte(tc.output), []byte(data)); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestFailureShowsNoHalfOfSecret: long text is cut, but not inside of a word, which
// would no longer be the secret.
func TestFailureShowsNoHalfOfSecret(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 99) + " " // shown as [...]
	for shift := range len("hunter2") {
		keys := (longest-shift)/len(key) - 1
		text := strings.Repeat(key, keys) + strings.Repeat("b", longest-shift-keys*len(key)-1) + " hunter2 more"
		got := Failure([]byte(`{"v1": {"errors": ["`+text+`"]}}`), nil, []byte(data))
		if strings.Contains(got, "hu") {
			t.Errorf("cut %d bytes into it: got %q", shift, got[max(0, len(got)-40):])
		}
	}
	if got := Failure([]byte(`{"v1": {"errors": ["`+strings.Repeat("ab", longest)+`"]}}`), nil, []byte(data)); strings.Contains(got, "abab") {
		t.Errorf("one word that is longer than all that is searched: got %q", got)
	}
}

func TestWaitingNamesWhereToSeeMore(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 1, 13, 0, 0, 0, time.FixedZone("", 3600))
	const want = `cloud-init to run the bootstrap data, since 2026-01-01T12:00:00Z and until 2026-01-01T12:20:00Z at most; "capstan logs machine m" shows its console`
	if got := Waiting("m", since, 20*time.Minute); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
