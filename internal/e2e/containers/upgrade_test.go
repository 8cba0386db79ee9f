// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// upgrading is how long an upgrade of five machines may take, one after the other.
const upgrading = 20 * time.Minute

// former is the version that clusters are upgraded from.
func former(t *testing.T) string {
	t.Helper()
	v := os.Getenv("CAPSTAN_E2E_FORMER_VERSION")
	if v == "" {
		t.Skip("CAPSTAN_E2E_FORMER_VERSION names no version of a second node image: make e2e does")
	}
	return v
}

// toUpgrade is a cluster of a class, of the version before, with a Pod that counts.
func toUpgrade(t *testing.T, l *lab, name string) *cluster {
	t.Helper()
	c := l.create(t, name, shape{flavor: "container-topology", version: former(t), controlPlane: 3, workers: 2})
	c.count(t)
	return c
}

// rollout sets a version, and allows no new machine before another is deleted: a
// sixth machine may have no inotify instances left, of which many hosts allow 128.
// No registry is near, so CoreDNS must be that of the new node image.
const rollout = `{"spec": {"topology": {
	"version": %q,
	"variables": [{"name": "controlPlaneMaxSurge", "value": 0}, {"name": "dnsImageTag", "value": %q}],
	"workers": {"machineDeployments": [{"class": "default-worker", "name": "md-0", "replicas": 2,
		"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}]}}}}`

func TestAnUpgradeReplacesMachines(t *testing.T) {
	former(t)
	l := newLab(t)
	before := l.left(t)
	c := toUpgrade(t, l, "replaced")
	old, err := c.nodes(t.Context(), former(t))
	if err != nil {
		t.Fatal(err)
	}
	c.mgmt(t, "", "patch", "cluster", c.name, "--type", "merge", "--patch", fmt.Sprintf(rollout, l.version, l.dns))
	c.upgraded(t)
	now, err := c.nodes(t.Context(), l.version)
	if err != nil {
		t.Fatal(err)
	}
	for name := range old {
		if now[name] != "" {
			t.Errorf("node %s is still there", name)
		}
	}
	c.leavesNothing(t, before)
}

func TestAnUpgradeInPlaceReplacesNone(t *testing.T) {
	former(t)
	l := newLab(t, "--update-in-place")
	before := l.left(t)
	c := toUpgrade(t, l, "inplace")
	old, err := c.nodes(t.Context(), former(t))
	if err != nil {
		t.Fatal(err)
	}
	supervisors, uids := c.supervisors(t), c.uids(t)
	c.mgmt(t, "", "patch", "cluster", c.name, "--type", "merge", "--patch", fmt.Sprintf(rollout, l.version, l.dns))
	c.interrupt(t)
	c.upgraded(t)
	now, err := c.nodes(t.Context(), l.version)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(old)), slices.Sorted(maps.Keys(now))); diff != "" {
		t.Errorf("nodes (-before +now):\n%s", diff)
	}
	if diff := cmp.Diff(supervisors, c.supervisors(t)); diff != "" {
		t.Errorf("containers (-before +now):\n%s", diff)
	}
	if diff := cmp.Diff(uids, c.uids(t)); diff != "" {
		t.Errorf("Machines (-before +now):\n%s", diff)
	}
	t.Run("and-machines-reboot-with-it", func(t *testing.T) {
		for _, kind := range []string{workers, controlPlanes} {
			c.lab.version = l.version
			c.reboot(t, c.oneOf(t, kind))
		}
		from, err := c.counted(t)
		if err != nil {
			t.Fatal(err)
		}
		c.counts(t, from)
	})
	c.leavesNothing(t, before)
}

// interrupt kills the plane while a machine is being changed, and starts it again.
func (c *cluster) interrupt(t *testing.T) {
	t.Helper()
	testenv.Within(t, changing, func() error {
		out := c.mgmt(t, "", "get", "machines", "--output", `jsonpath={.items[*].status.conditions[?(@.type=="Updating")].message}`)
		if !strings.Contains(out, "bringing images") {
			return fmt.Errorf("no machine is being changed: %s", out)
		}
		return nil
	})
	c.process.Kill()
	c.up(t)
}

func (c *cluster) uids(t *testing.T) string {
	t.Helper()
	return c.mgmt(t, "", "get", "machines", "--selector", "cluster.x-k8s.io/cluster-name="+c.name, "--sort-by", "metadata.name", "--output", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)
}

// upgraded waits until a cluster is of the version, and checks on the way that the
// Pod never counts back.
func (c *cluster) upgraded(t *testing.T) {
	t.Helper()
	begin := time.Now()
	watching, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		most, last := 0, time.Now()
		for watching.Err() == nil {
			if now, err := c.counted(t); err == nil {
				if now < most {
					t.Errorf("the Pod has counted to %d, and then to %d", most, now)
				}
				if now > most {
					if pause := time.Since(last); pause > 15*time.Second {
						t.Logf("after %s the Pod had not counted for %s", time.Since(begin).Round(time.Second), pause.Round(time.Second))
					}
					most, last = now, time.Now()
				}
			}
			select {
			case <-time.After(500 * time.Millisecond):
			case <-watching.Done():
			}
		}
		ended <- most
	}()
	testenv.Within(t, upgrading, func() error {
		if _, err := c.nodes(t.Context(), c.version); err != nil {
			return err
		}
		out := c.mgmt(t, "", "get", "cluster", c.name, "--output", `jsonpath={range .status.conditions[*]}{.type}={.status} {.message}{"\n"}{end}`)
		for _, want := range []string{"Available=True", "RollingOut=False", "TopologyReconciled=True"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("conditions of the Cluster, want %s:\n%s", want, out)
			}
		}
		return nil
	})
	t.Logf("the upgrade took %s", time.Since(begin).Round(time.Second))
	stop()
	c.counts(t, <-ended)
	c.ready(t, c.version)
	c.etcdIsWhole(t)
}

// etcdIsWhole waits until etcd has three members that answer.
func (c *cluster) etcdIsWhole(t *testing.T) {
	t.Helper()
	testenv.Within(t, changing, func() error {
		out, err := c.try(t.Context(), "", "get", "pods", "--namespace", "kube-system", "--selector", "component=etcd", "--output", "jsonpath={.items[*].status.containerStatuses[0].ready}")
		if err == nil && out != "true true true" {
			err = fmt.Errorf("members of etcd that are ready: %q, want three", out)
		}
		return err
	})
}
