// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/server"
)

const hold = "sample-extension.capstan.dev/hold"

// holds records since when a Cluster waits at a step of its lifecycle.
type holds struct {
	now func() time.Time

	mu    sync.Mutex // guards since
	since map[string]time.Time
}

// mayHold registers a handler that waits while the annotation hold of the Cluster, or the
// setting of that name, names the hook, possibly in a comma-separated list, or is "true"
// for all hooks: until neither does, or for holdSeconds at each step if that is set. It
// is called again after retryAfterSeconds. A hook that the setting fail names is answered
// with an error.
func mayHold[Req, Resp any](h *holds, s *server.Server, hook func(*Req, *Resp), step func(*Req) (*clusterv1.Cluster, string)) error {
	return server.Handle(s, hook, func(_ context.Context, req *Req, resp *Resp) error {
		r, answer := any(req).(hooksv1.RequestObject), any(resp).(hooksv1.RetryResponseObject)
		cluster, version := step(req)
		settings, name := r.GetSettings(), strings.TrimSuffix(r.GetObjectKind().GroupVersionKind().Kind, "Request")
		by := "annotation " + hold
		switch {
		case has(settings["fail"], name):
			return errors.New("setting fail has " + name)
		case has(settings["hold"], name):
			by = "setting hold"
		case !has(cluster.Annotations[hold], name):
			return nil
		}
		again, err := seconds(settings, "retryAfterSeconds", 10)
		most, err2 := seconds(settings, "holdSeconds", 0)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if most > 0 && h.held(fmt.Sprint(name, " ", cluster.UID, " ", version)) >= time.Duration(most)*time.Second {
			return nil
		}
		answer.SetMessage("held by " + by)
		answer.SetRetryAfterSeconds(again)
		return nil
	})
}

func has(list, name string) bool {
	return list == "true" || slices.Contains(strings.Split(list, ","), name)
}

func seconds(settings map[string]string, name string, otherwise int32) (int32, error) {
	if settings[name] == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(settings[name])
	if err != nil || n < 1 || n > 3600 {
		return 0, fmt.Errorf("setting %s is not a number from 1 to 3600", name)
	}
	return int32(n), nil
}

// held is for how long a step has been held. After a day, the time of a step restarts.
func (h *holds) held(step string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	maps.DeleteFunc(h.since, func(_ string, since time.Time) bool { return now.Sub(since) > 24*time.Hour })
	if _, known := h.since[step]; !known {
		h.since[step] = now
	}
	return now.Sub(h.since[step])
}
