// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// Server answers requests as an API server does.
type Server interface {
	Do(ctx context.Context, r Request) (answer map[string]any, code int, err error)
}

// Request is one request to a Server.
type Request struct {
	Method, Path, Query, Type string
	Body                      any
}

// The types of a body.
const (
	asJSON  = "application/json"
	asMerge = "application/merge-patch+json"
	asApply = "application/apply-patch+yaml"
)

// Remote is a Server over the network.
func Remote(cfg *rest.Config) (Server, error) {
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &remote{cfg.Host, c}, nil
}

type remote struct {
	host string
	http *http.Client
}

// Do implements Server; it decodes the answer as an unstructured client does.
func (s *remote) Do(ctx context.Context, r Request) (answer map[string]any, code int, err error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, s.host+r.Path+"?"+r.Query, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", r.Type)
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, 0, err
	}
	if err := utiljson.Unmarshal(text, &answer); err != nil {
		return nil, resp.StatusCode, fmt.Errorf("%d: %s", resp.StatusCode, text)
	}
	return answer, resp.StatusCode, nil
}
