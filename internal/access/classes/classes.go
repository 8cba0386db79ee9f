// SPDX-License-Identifier: Apache-2.0

// Package classes reads ClusterClasses with their variables and patches ready for use.
package classes

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// most is the number of cached classes: more than a fleet uses at a time. A class
// of forty variables takes a tenth of a megabyte, or three if each variable has a
// rule.
const most = 100

// Classes reads classes, and compiles the definitions and patches of each once.
type Classes struct {
	mgmt client.Reader

	mu sync.Mutex // guards of and its values
	of map[types.UID]*compiled
}

// compiled is the cached result for a class. Both parts are compiled on demand:
// admission needs no patches.
type compiled struct {
	version     string // of the object
	definitions *variables.Definitions
	schemas     map[string]*variables.Compiled
	patches     *patches.Class
}

// New returns an empty Classes. mgmt reads from a cache.
func New(mgmt client.Reader) *Classes {
	return &Classes{mgmt: mgmt, of: map[types.UID]*compiled{}}
}

// Get reads a class; nil if not found. The result is shared with the cache and must
// not be changed.
func (c *Classes) Get(ctx context.Context, key client.ObjectKey) (*clusterv1.ClusterClass, error) {
	class := &clusterv1.ClusterClass{}
	err := c.mgmt.Get(ctx, key, class, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ClusterClass %s: %w", key, err)
	}
	return class, nil
}

// Unready returns why Clusters cannot use a class yet; "" if they can. It starts
// with the texts of Cluster API and continues with the problems that the class
// reports.
func Unready(class *clusterv1.ClusterClass) string {
	why := "ClusterClass is not successfully reconciled: "
	switch {
	case !conditions.IsTrue(class, clusterv1.ClusterClassVariablesReadyCondition):
		why += `status of VariablesReady condition on ClusterClass must be "True"`
	case class.Status.ObservedGeneration != class.Generation:
		why += fmt.Sprintf("ClusterClass.status.observedGeneration must be %d, but is %d", class.Generation, class.Status.ObservedGeneration)
	default:
		return ""
	}
	if wrong := Problems(class); len(wrong) > 0 {
		why += fmt.Sprintf(": ClusterClass %s: %s", client.ObjectKeyFromObject(class), strings.Join(wrong, "; "))
	}
	return why
}

// Problems returns the problems that a class reports.
func Problems(class *clusterv1.ClusterClass) (wrong []string) {
	for _, c := range class.Status.Conditions {
		switch c.Reason {
		case clusterv1.ClusterClassVariablesReadyVariableDiscoveryFailedReason, clusterv1.ClusterClassRefVersionsUpToDateInternalErrorReason:
			wrong = append(wrong, strings.ReplaceAll(c.Message, "\n", "; "))
		}
	}
	return wrong
}

// Definitions returns the variables of a class, from its status.
func (c *Classes) Definitions(class *clusterv1.ClusterClass) (*variables.Definitions, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known(class)
	if known.definitions != nil {
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
	known.definitions, known.schemas = definitions, schemas
	return definitions, nil
}

// Patches returns the patches of a class. Its status has its variables.
func (c *Classes) Patches(class *clusterv1.ClusterClass) (*patches.Class, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known(class)
	if known.patches != nil {
		return known.patches, nil
	}
	compiled, err := patches.Compile(class)
	if err != nil {
		return nil, fmt.Errorf("ClusterClass %s: %w", client.ObjectKeyFromObject(class), err)
	}
	known.patches = compiled
	return compiled, nil
}

// known returns the cache entry of a class at its version. An entry of another
// version passes its compiled schemas to the new one. The caller must hold the
// lock.
func (c *Classes) known(class *clusterv1.ClusterClass) *compiled {
	of := c.of[class.UID]
	if of != nil && of.version == class.ResourceVersion {
		return of
	}
	next := &compiled{version: class.ResourceVersion}
	if of != nil {
		next.schemas = of.schemas
	} else if len(c.of) >= most {
		clear(c.of) // so rare that compiling again costs less than an eviction order
	}
	c.of[class.UID] = next
	return next
}
