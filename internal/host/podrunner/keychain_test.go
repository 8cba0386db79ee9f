// SPDX-License-Identifier: Apache-2.0

package podrunner

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

func TestKeychainPrefersKeyOfRepository(t *testing.T) {
	t.Parallel()
	chain, err := keychain([][]byte{[]byte(`{"auths": {
		"https://index.docker.io/v1/": {"username": "hub"}, "http://reg.example.com": {"username": "registry"},
		"reg.example.com/org": {"username": "org"}, "https://reg.example.com/org/team/": {"username": "team"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"busybox": "hub", "reg.example.com/app": "registry", "reg.example.com/organ/app": "registry", "reg.example.com/org/app": "org",
		"reg.example.com/org/team": "team", "reg.example.com/org/team/app": "team", "other.example.com/org/app": "",
	} {
		repo, err := name.NewRepository(image)
		if err != nil {
			t.Fatal(err)
		}
		auth, err := chain.Resolve(repo)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := auth.Authorization(); err != nil || got.Username != want {
			t.Errorf("%s: got %q, %v, want %q", image, got.Username, err, want)
		}
	}
}
