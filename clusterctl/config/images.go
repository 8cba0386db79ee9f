// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/distribution/reference"
)

// replacement is the replacement of an image in the file; empty parts are not
// replaced.
type replacement struct {
	Repository string `json:"repository"`
	Name       string `json:"name"`
	Tag        string `json:"tag"`
}

// Image returns the image to use instead of one of a component, which is the label
// of a provider or cert-manager. The file replaces images of all components, of one
// component, or one image of a component; the most specific entry takes precedence.
func (c *Config) Image(component, image string) (string, error) {
	var sections map[string]replacement
	if err := c.decode("images", &sections); err != nil || len(sections) == 0 {
		return image, err
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q of %s: %w", image, component, err)
	}
	repository, name := path.Split(named.Name())
	var use replacement
	for _, level := range []string{component + "/" + name, component, "all"} {
		r := sections[level]
		use.Repository, use.Name, use.Tag = cmp.Or(use.Repository, r.Repository), cmp.Or(use.Name, r.Name), cmp.Or(use.Tag, r.Tag)
	}
	if use == (replacement{}) {
		return image, nil
	}
	replaced := strings.TrimSuffix(cmp.Or(use.Repository, repository), "/") + "/" + cmp.Or(use.Name, name) + suffix(named, use.Tag)
	if _, err := reference.ParseNormalizedNamed(replaced); err != nil {
		return "", fmt.Errorf("%s: images: what replaces %s of %s is %q: %w", c.where(), image, component, replaced, err)
	}
	return replaced, nil
}

// suffix is the tag and digest of an image. Another tag is another image, whose
// digest is not known.
func suffix(named reference.Named, tag string) string {
	if tag != "" {
		return ":" + tag
	}
	s := ""
	if t, ok := named.(reference.Tagged); ok {
		s = ":" + t.Tag()
	}
	if d, ok := named.(reference.Digested); ok {
		s += "@" + d.Digest().String()
	}
	return cmp.Or(s, ":latest")
}
