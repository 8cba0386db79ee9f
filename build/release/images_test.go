// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

// TestTheChartAsksForTheImagesOfTheRelease holds the default of the chart against what
// a release calls its image.
func TestTheChartAsksForTheImagesOfTheRelease(t *testing.T) {
	t.Parallel()
	values, err := os.ReadFile("../../charts/capstan/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(imageName("capstan-manager", "v1.2.3+dirty"), ":")
	if !strings.Contains(string(values), "\n  repository: "+repository+"\n") || tag != "v1.2.3_dirty" {
		t.Errorf("the release has %s with the tag %s, which is not the default of the chart", repository, tag)
	}
}

func TestEachImageIsOfAProgramOfTheRelease(t *testing.T) {
	t.Parallel()
	files := map[string]bool{}
	for _, i := range images {
		files[imageFile(i.program, i.arch)] = true
		found := false
		for _, p := range platforms {
			found = found || p.program == i.program && p.os == "linux" && p.arch == i.arch
		}
		if !found {
			t.Errorf("no %s is released for linux/%s", i.program, i.arch)
		}
	}
	if len(files) != len(images) {
		t.Errorf("%d images have %d files", len(images), len(files))
	}
}
