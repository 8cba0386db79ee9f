// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func TestTokenSecretIsWhatKubernetesExpects(t *testing.T) {
	t.Parallel()
	s := TokenSecret(bootstrapv1.BootstrapTokenString{ID: "abcdef", Secret: "0123456789abcdef"}, "for m1", now.Add(15*time.Minute))
	got := map[string]string{"name": s.Namespace + "/" + s.Name, "type": string(s.Type)}
	for k, v := range s.Data {
		got[k] = string(v)
	}
	want := map[string]string{
		"name": "kube-system/bootstrap-token-abcdef", "type": "bootstrap.kubernetes.io/token",
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": "2026-08-01T12:15:00Z",
		"usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token", "description": "for m1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ExtendToken(s, now.Add(time.Hour))
	if expires, err := TokenExpiry(s); err != nil || !expires.Equal(now.Add(time.Hour)) {
		t.Errorf("TokenExpiry = %v, %v, want an hour from now", expires, err)
	}
	s.Data["expiration"] = []byte("soon")
	if _, err := TokenExpiry(s); err == nil || !strings.Contains(err.Error(), "kube-system/bootstrap-token-abcdef") {
		t.Errorf("TokenExpiry = %v, want an error that names the Secret", err)
	}
	delete(s.Data, "expiration")
	if expires, err := TokenExpiry(s); err != nil || !expires.IsZero() {
		t.Errorf("TokenExpiry = %v, %v, want never", expires, err)
	}
}

func TestTokenUpkeepExtendsBelowFiveSixths(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Minute
	tests := map[string]struct {
		expires    time.Time
		wantExtend bool
		wantAgain  time.Duration
	}{
		"just made":              {now.Add(ttl), false, 5 * time.Minute},
		"five sixths left":       {now.Add(ttl * 5 / 6), false, 5 * time.Minute},
		"less than that":         {now.Add(ttl*5/6 - time.Second), true, 5 * time.Minute},
		"ended":                  {now.Add(-time.Hour), true, 5 * time.Minute},
		"a token without an end": {time.Time{}, false, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			extend, again := TokenUpkeep(now, tc.expires, ttl)
			if extend != tc.wantExtend || again != tc.wantAgain {
				t.Errorf("TokenUpkeep = %t, %v, want %t, %v", extend, again, tc.wantExtend, tc.wantAgain)
			}
		})
	}
}
