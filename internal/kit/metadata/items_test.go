// SPDX-License-Identifier: Apache-2.0

package metadata_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

func TestNamedFindsTheItemItself(t *testing.T) {
	t.Parallel()
	list := []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	all := metadata.Pointers(list)
	if got := metadata.Named(all, "b"); got != &list[1] {
		t.Errorf("found %v, want the item of the list", got)
	}
	if got := metadata.Named(all, "c"); got != nil {
		t.Errorf("found %v, want none", got)
	}
	if got := metadata.Named(metadata.Pointers[metav1.PartialObjectMetadata](nil), "a"); got != nil {
		t.Errorf("found %v in nothing", got)
	}
}
