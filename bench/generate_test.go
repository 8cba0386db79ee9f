// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// BenchmarkGenerateCluster runs the program with a local repository that has the whole
// release of a real provider, and compares with what it takes to start: the aim is less
// than 200 ms.
func BenchmarkGenerateCluster(b *testing.B) {
	program, home := testenv.Binary(b), b.TempDir()
	folder := filepath.Join(home, "infrastructure-aws", "v2.11.1")
	archive, err := filepath.Abs("../clusterctl/testdata/releases/infrastructure-aws-v2.11.1.tar.gz")
	settings := "providers: [{name: aws, type: InfrastructureProvider, url: " + filepath.Dir(folder) + "/latest/infrastructure-components.yaml}]\n" +
		"AWS_CONTROL_PLANE_MACHINE_TYPE: a\nAWS_NODE_MACHINE_TYPE: a\nAWS_REGION: a\nAWS_SSH_KEY_NAME: a\n"
	config := filepath.Join(home, "clusterctl.yaml")
	if err := errors.Join(err, os.MkdirAll(folder, 0o700), os.WriteFile(config, []byte(settings), 0o600)); err != nil {
		b.Fatal(err)
	}
	run := func(name string, args ...string) time.Duration {
		cmd := exec.CommandContext(b.Context(), name, args...)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return time.Since(begin)
	}
	run("tar", "-C", folder, "-xzf", archive)
	var generate, start time.Duration
	for b.Loop() {
		generate += run(program, "generate", "cluster", "demo", "-i", "aws", "--config", config)
		start += run(program, "version", "--config", config)
	}
	b.ReportMetric(milliseconds(generate)/float64(b.N), "ms/generate")
	b.ReportMetric(milliseconds(start)/float64(b.N), "ms/start")
	b.ReportMetric(float64(generate)/float64(start), "generate/start")
}
