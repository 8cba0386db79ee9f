// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/bench/planes"
)

const (
	// crowdCalls is how many requests are measured with the Pod that forks, and as many
	// without it, half of them before and half after; 20 are above a 99th percentile.
	crowdCalls = 2000
	// crowdIs is how many processes the Pod has at least before requests are measured: a
	// process of Go has about six threads, and a Pod 512.
	crowdIs = 40
	// crowdEnds is after how long the Pod ends if it is not deleted; it is deleted after
	// less than a minute.
	crowdEnds = 5 * time.Minute
	// crowdPause is between two counts of the processes.
	crowdPause = 100 * time.Millisecond
)

// crowd measures requests to the API server with and without a Pod that forks without end.
func (b *Bench) crowd(ctx context.Context, c *Cost) error {
	before, err := b.requests(ctx, "before", crowdCalls/2)
	if err != nil {
		return err
	}
	end, err := b.fork(ctx)
	if err != nil {
		return fmt.Errorf("a Pod that forks: %w", err)
	}
	with, err := b.requests(ctx, "with", crowdCalls)
	if err = errors.Join(err, end()); err != nil {
		return err
	}
	after, err := b.requests(ctx, "after", crowdCalls/2)
	c.AloneMilliseconds, c.CrowdedMilliseconds = percentile99(slices.Concat(before, after)), percentile99(with)
	return err
}

// requests creates and reads objects, and returns how many milliseconds each pair took.
func (b *Bench) requests(ctx context.Context, when string, n int) (took []float64, err error) {
	all := b.typed.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	for i := range n {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("crowd-%s-%d", when, i)}}
		begin := time.Now()
		if _, err := all.Create(ctx, m, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		if _, err := all.Get(ctx, m.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(begin))/float64(time.Millisecond))
	}
	return took, nil
}

// fork starts the Pod, and waits until it has its processes.
func (b *Bench) fork(ctx context.Context) (end func() error, err error) {
	pods := b.typed.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "crowd"}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: image, Args: []string{"-forks", strconv.FormatInt(time.Now().Add(crowdEnds).Unix(), 10)}}}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	end = func() error {
		now := int64(0)
		if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			return err
		}
		for {
			if _, err := pods.Get(ctx, pod.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				return nil
			}
			if err := planes.Pause(ctx, crowdPause); err != nil {
				return err
			}
		}
	}
	for {
		n, err := b.largest()
		if err != nil {
			return nil, err
		}
		if n >= crowdIs {
			return end, nil
		}
		if err := planes.Pause(ctx, crowdPause); err != nil {
			return nil, fmt.Errorf("it has %d processes: %w", n, err)
		}
	}
}

// largest is how many processes the Pod has that has the most.
func (b *Bench) largest() (most int, err error) {
	pods, err := holders(b.PID)
	if err != nil {
		return 0, err
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	children := map[int][]int{}
	for _, dir := range all {
		stat, err1 := os.ReadFile(filepath.Join(dir, "stat"))
		pid, err2 := strconv.Atoi(filepath.Base(dir))
		if errors.Join(err1, err2) == nil { // else it has ended
			above := parent(string(stat))
			children[above] = append(children[above], pid)
		}
	}
	for _, pid := range pods {
		most = max(most, below(children, pid))
	}
	return most, nil
}

func below(children map[int][]int, pid int) (n int) {
	for _, c := range children[pid] {
		n += 1 + below(children, c)
	}
	return n
}

// percentile99 is the least of the slowest hundredth.
func percentile99(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)*99/100]
}
