// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// fill writes until the disk is full and returns the file.
func fill(t *testing.T, disk string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	_ = f.Close() // it has nothing left to write to
	return f.Name()
}

func TestAFullDiskEndsThePlaneAndNothingAcknowledgedIsLost(t *testing.T) {
	testenv.Alone(t, 1)
	testenv.Binary(t) // built here, or skipped
	disk := builder.SmallDisk(t, 300)
	if disk == "" {
		return
	}
	dir := filepath.Join(disk, "data")
	p := startOn(t, dir)
	put(t, dir, "before")
	filler := fill(t, disk)
	c := connect(t, dir)
	noise := make([]byte, 200_000)
	var acknowledged []string
	for i := range 500 {
		_, _ = rand.Read(noise)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("during-%d", i)},
			Data: map[string]string{"noise": hex.EncodeToString(noise), "kept": fmt.Sprintf("during-%d", i)}}
		if err := c.Create(t.Context(), cm); err != nil {
			break
		}
		acknowledged = append(acknowledged, cm.Name)
	}
	err := p.Wait()
	want := "disk of " + dir + " is full: make room, then start again with"
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("the plane ended with %v, want %q", err, want)
	}
	status := exec.Command(testenv.Binary(t), "status", "--data-dir="+dir)
	if out, err := status.Output(); status.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "Problem:") || !strings.Contains(string(out), want) {
		t.Errorf("status: %v\n%s", err, out)
	}
	if got := startFails(t, dir); !strings.Contains(got, "disk of "+dir+" is full") {
		t.Errorf("the start on a full disk says %q", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	startOn(t, dir)
	for _, name := range append(acknowledged, "before") {
		kept(t, dir, name)
	}
	put(t, dir, "after")
}
