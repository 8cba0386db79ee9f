// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// seed writes definitions into a new etcd, before an API server reads them. Through
// an API server each would be written four times (created, its names accepted,
// established, its date changed), and each write handled by half a dozen of the
// server's controllers: a third of the CPU time of a first start. Definitions that
// are missing, for example after a crash, are installed through the API server.
func (c *completed) seed(ctx context.Context, server *etcdserver.EtcdServer) error {
	if c.Definitions == nil {
		return nil
	}
	now := c.now()
	definitions, err := c.Definitions(now)
	if err != nil {
		return err
	}
	var writing sync.WaitGroup // concurrently: etcd syncs them to disk together
	errs := make([]error, len(definitions))
	for i, d := range definitions {
		writing.Go(func() {
			errs[i] = recovery.Call(ctx, func() error {
				value, err := stored(d, now)
				if err == nil {
					key := fmt.Sprintf("%s/%s/customresourcedefinitions/%s", c.Etcd.Prefix, apiextensionsv1.GroupName, d.Name)
					_, err = server.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: value})
				}
				if err != nil {
					return fmt.Errorf("store CustomResourceDefinition %s: %w", d.Name, err)
				}
				return nil
			})
		})
	}
	writing.Wait()
	return errors.Join(errs...)
}

// stored is what an API server would store that had created d.
func stored(d *apiextensionsv1.CustomResourceDefinition, now time.Time) ([]byte, error) {
	d.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	d.UID, d.CreationTimestamp, d.Generation = uuid.NewUUID(), metav1.NewTime(now), 1
	return json.Marshal(d)
}
