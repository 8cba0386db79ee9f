// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"slices"
	"sync"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// remembered is how many documents of clusters with definitions are cached, for all
// clusters of the process. Together with all that Kubernetes has one may be of
// several megabytes: too much for a copy in each cluster.
const remembered = 8

// subject is what a document describes.
type subject struct {
	served *kinds.Set // another one once a definition has changed
	what   string
}

// recent are the documents that were built last.
type recent struct {
	mu        sync.Mutex // guards all below
	documents map[subject]func() (*Document, error)
	order     []subject // the oldest first
}

var latest = recent{documents: map[subject]func() (*Document, error){}}

// get returns a document, which is built once for all requests at the same time or
// soon after.
func (r *recent) get(of subject, make func() (*Document, error)) (*Document, error) {
	r.mu.Lock()
	made := r.documents[of]
	if made == nil {
		made = sync.OnceValues(make)
		r.documents[of] = made
		if r.order = append(r.order, of); len(r.order) > remembered {
			delete(r.documents, r.order[0])
			r.order = slices.Delete(r.order, 0, 1)
		}
	}
	r.mu.Unlock()
	return made()
}
