// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

const old = `# a comment
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: demo, namespace: ns}
spec:
  controlPlaneRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlane, name: demo, namespace: ns}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
- apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
  kind: KubeadmConfigTemplate
  metadata: {name: demo}
  spec: {template: {spec: {useExperimentalRetryJoin: true, files: [{path: /a}]}}}
- apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
  kind: AWSCluster
  metadata: {name: demo}
`

const now = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: demo
  namespace: ns
spec:
  controlPlaneRef:
    apiGroup: controlplane.cluster.x-k8s.io
    kind: KubeadmControlPlane
    name: demo
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: other
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata:
  name: demo
spec:
  template:
    spec:
      files:
      - path: /a
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: AWSCluster
metadata:
  name: demo
`

func run(in string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := NewConvert(&command.Env{Name: "capstan", In: strings.NewReader(in), Out: &out})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

func TestObjectsOfAllGroupsAreConverted(t *testing.T) {
	t.Parallel()
	got, err := run(old)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(now, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	again, err := run(got)
	if err != nil || again != got {
		t.Errorf("what has the version changes, error %v:\n%s", err, cmp.Diff(got, again))
	}
	back, err := run(got, "--to-version", "v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(back, "apiVersion: controlplane.cluster.x-k8s.io/v1beta1") {
		t.Errorf("the reference has no version:\n%s", back)
	}
	if round, err := run(back); err != nil || round != got {
		t.Errorf("there and back, error %v (-want +got):\n%s", err, cmp.Diff(got, round))
	}
}

func TestWhatCannotBeConvertedIsSaid(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in, want string
		args     []string
	}{
		"a version that is not known": {args: []string{"--to-version", "v1"}, want: `--to-version "v1" is not known: use v1beta2 or v1beta1`},
		"two files":                   {args: []string{"a", "b"}, want: "one file, or none"},
		"a file that is not there":    {args: []string{"nowhere.yaml"}, want: "nowhere.yaml: no such file or directory"},
		"a broken document":           {in: "a: b\n---\na: [\n", want: "document"},
		"a version of long ago":       {in: "{apiVersion: cluster.x-k8s.io/v1alpha3, kind: Cluster, metadata: {name: x}}", want: "Cluster x has version cluster.x-k8s.io/v1alpha3, which is not known"},
		"a field of another type":     {in: "{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: x}, spec: {paused: 7}}", want: "paused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := run(tc.in, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) || out != "" {
				t.Errorf("got %q, error %v; want %q", out, err, tc.want)
			}
		})
	}
}
