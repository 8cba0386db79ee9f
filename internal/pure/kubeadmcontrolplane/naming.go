// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"fmt"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/util/validation"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
)

// Name is the name of a new machine: that of spec.machineNaming.template, or
// <control plane>-<random>. A name that is too long for a host loses the end
// of what comes before the random part.
func Name(kcp *controlplanev1.KubeadmControlPlane, cluster, random string) (string, error) {
	text := kcp.Spec.MachineNaming.Template
	if text == "" {
		return fit(kcp.Name+"-"+random, random), nil
	}
	t, err := template.New("name").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("read spec.machineNaming.template: %w", err)
	}
	var out strings.Builder
	err = t.Execute(&out, map[string]any{
		"cluster":             map[string]any{"name": cluster},
		"kubeadmControlPlane": map[string]any{"name": kcp.Name},
		"random":              random,
	})
	if err != nil {
		return "", fmt.Errorf("fill spec.machineNaming.template: %w", err)
	}
	name := fit(out.String(), random)
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("spec.machineNaming.template makes the name %q: %s", name, strings.Join(wrong, ", "))
	}
	return name, nil
}

func fit(name, random string) string {
	const most = validation.DNS1123LabelMaxLength
	if len(name) <= most {
		return name
	}
	if start, ok := strings.CutSuffix(name, random); ok {
		return start[:most-len(random)] + random
	}
	return name[:most]
}
