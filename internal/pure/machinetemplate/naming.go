// SPDX-License-Identifier: Apache-2.0

package machinetemplate

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
)

// Naming is the input for the names of the Machines of one owner.
type Naming struct {
	Template string // spec.machineNaming.template; empty for <maker>-<random>
	As       string // the template's name for the owner, such as machineSet
	Maker    string
	Cluster  string
}

// Name is the name of the Machine with that random part. Names become host names
// and label values, so a long one is cut, keeping its end if that is the random
// part.
func (n Naming) Name(random string) (string, error) {
	if n.Template == "" {
		return cut(n.Maker+"-"+random, random), nil
	}
	t, err := gotemplate.ParseName(n.Template)
	if err != nil {
		return "", fmt.Errorf("read spec.machineNaming.template: %w", err)
	}
	budget := gotemplate.PerName
	text, err := t.Render(map[string]any{
		"cluster": map[string]any{"name": n.Cluster},
		n.As:      map[string]any{"name": n.Maker},
		"random":  random,
	}, &budget)
	if err != nil {
		return "", fmt.Errorf("fill spec.machineNaming.template: %w", err)
	}
	name := cut(text, random)
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("spec.machineNaming.template makes the name %q: %s", name, strings.Join(wrong, ", "))
	}
	return name, nil
}

func cut(name, random string) string {
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	if base, ok := strings.CutSuffix(name, random); ok {
		return base[:validation.DNS1123LabelMaxLength-len(random)] + random
	}
	return name[:validation.DNS1123LabelMaxLength]
}
