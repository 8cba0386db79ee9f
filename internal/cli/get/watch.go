// SPDX-License-Identifier: Apache-2.0

package get

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// pause is the delay before a watch that has ended starts again.
const pause = time.Second

// watching prints the objects of a resource, and each again when it changes.
type watching struct {
	env *command.Env
	c   rest.Interface
	r   resource
	o   listOptions
	p   printer
}

// run ends by an error: of its context, or when the management cluster is not reachable.
func (w *watching) run(ctx context.Context) error {
	// It keeps the widths of the columns, so that later rows align.
	out := printers.GetNewTabWriter(w.env.Out)
	for {
		answer, err := ask(ctx, w.c, w.r, w.o, "", w.p.asTable)
		if err != nil {
			return err
		}
		version, err := w.list(answer, out)
		for err == nil {
			version, err = w.follow(ctx, version, out)
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		_ = lifecycle.Sleep(ctx, pause) // the next list may be as old
	}
}

// list prints all existing objects, each separately as kubectl does, and returns
// the version from which to watch.
func (w *watching) list(answer json.RawMessage, out io.Writer) (version string, err error) {
	var all struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(answer, &all); err != nil {
		return "", fmt.Errorf("read the answer of the management cluster: %w", err)
	}
	if w.p.asTable {
		return all.Metadata.ResourceVersion, w.print(answer, out)
	}
	for _, item := range all.Items {
		if err := w.print(item, out); err != nil {
			return "", err
		}
	}
	return all.Metadata.ResourceVersion, nil
}

// print prints one object or table.
func (w *watching) print(answer json.RawMessage, out io.Writer) error {
	if !w.p.asTable {
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON(answer); err != nil {
			return fmt.Errorf("read the answer of the management cluster: %w", err)
		}
		return w.p.PrintObj(&u, w.env.Out)
	}
	table, err := tableOf(answer)
	if err != nil {
		return err
	}
	if err := w.p.PrintObj(table, out); err != nil {
		return err
	}
	if f, ok := out.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

// follow prints what changes after a version, until the API server ends the watch;
// it returns the version from which to continue.
func (w *watching) follow(ctx context.Context, version string, out io.Writer) (string, error) {
	req := request(w.c, w.r, w.o, "", w.p.asTable).Param("watch", "true").Param("resourceVersion", version).Param("allowWatchBookmarks", "true")
	body, err := req.Stream(ctx)
	if err != nil {
		return version, err
	}
	defer func() { _ = body.Close() }()
	for events := json.NewDecoder(body); ; {
		var e metav1.WatchEvent
		if err := events.Decode(&e); err != nil {
			if ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); !ended || ctx.Err() != nil {
				return version, err
			}
			_ = lifecycle.Sleep(ctx, pause)
			return version, nil // a watch ends now and then, and continues from here
		}
		if e.Type == string(watch.Error) {
			status := &metav1.Status{Code: http.StatusInternalServerError}
			_ = json.Unmarshal(e.Object.Raw, status) // an unreadable status is an internal error anyway
			return version, apierrors.FromObject(status)
		}
		if to := versionOf(e.Object.Raw); to != "" {
			version = to
		}
		if e.Type == string(watch.Bookmark) {
			continue
		}
		if err := w.print(e.Object.Raw, out); err != nil {
			return version, err
		}
	}
}

// versionOf is the resource version of an object, or of that in a table of one.
func versionOf(raw []byte) string {
	var o struct {
		Metadata metav1.ListMeta `json:"metadata"`
		Rows     []struct {
			Object struct {
				Metadata metav1.ListMeta `json:"metadata"`
			} `json:"object"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return ""
	}
	for _, row := range o.Rows {
		return row.Object.Metadata.ResourceVersion
	}
	return o.Metadata.ResourceVersion
}
