// SPDX-License-Identifier: Apache-2.0

// Package classes reads ClusterClasses with their variables ready for use.
package classes

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/topology/variables"
)

// most is how many classes are remembered: more than a fleet uses at a time. A
// class of forty variables takes a tenth of a megabyte, and three with a rule for
// each.
const most = 100

// Classes reads classes, and compiles the definitions of each once.
type Classes struct {
	mgmt client.Reader

	mu sync.Mutex // guards of
	of map[types.UID]compiled
}

// compiled is what is remembered of a class.
type compiled struct {
	version     string // of the object
	definitions *variables.Definitions
	schemas     map[string]*variables.Compiled
}

// New makes it. mgmt reads from a cache.
func New(mgmt client.Reader) *Classes {
	return &Classes{mgmt: mgmt, of: map[types.UID]compiled{}}
}

// Get reads a class; nil if it is not there.
func (c *Classes) Get(ctx context.Context, key client.ObjectKey) (*clusterv1.ClusterClass, error) {
	class := &clusterv1.ClusterClass{}
	err := c.mgmt.Get(ctx, key, class)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ClusterClass %s: %w", key, err)
	}
	return class, nil
}

// Unready says why Clusters cannot rely on a class yet; "" if they can. The texts
// are those of Cluster API.
func Unready(class *clusterv1.ClusterClass) string {
	switch {
	case !conditions.IsTrue(class, clusterv1.ClusterClassVariablesReadyCondition):
		return `ClusterClass is not successfully reconciled: status of VariablesReady condition on ClusterClass must be "True"`
	case class.Status.ObservedGeneration != class.Generation:
		return fmt.Sprintf("ClusterClass is not successfully reconciled: ClusterClass.status.observedGeneration must be %d, but is %d", class.Generation, class.Status.ObservedGeneration)
	}
	return ""
}

// Definitions are the variables of a class, from its status.
func (c *Classes) Definitions(class *clusterv1.ClusterClass) (*variables.Definitions, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of[class.UID]
	if known.definitions != nil && known.version == class.ResourceVersion {
		return known.definitions, nil
	}
	schemas := map[string]*variables.Compiled{}
	definitions, err := variables.Resolve(class.Status.Variables, func(s clusterv1.VariableSchema) (*variables.Compiled, error) {
		key := variables.Key(s)
		if one := known.schemas[key]; one != nil {
			schemas[key] = one
			return one, nil
		}
		one, err := variables.Compile(s)
		schemas[key] = one
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("ClusterClass %s: %w", client.ObjectKeyFromObject(class), err)
	}
	if _, ok := c.of[class.UID]; !ok && len(c.of) >= most {
		clear(c.of) // so rare that compiling again costs less than keeping order
	}
	c.of[class.UID] = compiled{class.ResourceVersion, definitions, schemas}
	return definitions, nil
}
