// SPDX-License-Identifier: Apache-2.0

package listing

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// The words of an API server for a list that cannot be shown any more.
const (
	tooOld      = "The resourceVersion for the provided list is too old."
	pageExpired = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue " +
		"parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
)

// root is the prefix of the keys in the tokens of pages.
const root = "/"

// keyAt orders entries as their pages go.
func keyAt(e *store.Entry) string {
	if e.Key.Namespace == "" {
		return root + e.Key.Name
	}
	return root + e.Key.Namespace + "/" + e.Key.Name
}

// Page lists what a client selects: all of it, or from the position in a token, up
// to a limit. All pages show the objects of one version.
func (sel Selection) Page(all *store.Store, o *internalversion.ListOptions) ([]*store.Entry, metav1.ListMeta, error) {
	entries, version, from, err := sel.versioned(all, o)
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}
	if err != nil {
		return nil, meta, err
	}
	if from != "" {
		start, _ := slices.BinarySearchFunc(entries, from, func(e *store.Entry, from string) int { return strings.Compare(keyAt(e), from) })
		entries = entries[start:]
	}
	var shown []*store.Entry
	for i, e := range entries {
		if !sel.Matches(e) {
			continue
		}
		shown = append(shown, e)
		left := int64(len(entries) - i - 1)
		if o.Limit <= 0 || int64(len(shown)) < o.Limit || left == 0 {
			continue
		}
		if sel.all() {
			meta.RemainingItemCount = &left
		}
		meta.Continue, err = storage.EncodeContinue(keyAt(e)+"\x00", root, int64(version))
		return shown, meta, err
	}
	return shown, meta, nil
}

// versioned lists the entries of the version that a client requests, and returns
// that version, and the key of the first entry that the client does not have.
func (sel Selection) versioned(all *store.Store, o *internalversion.ListOptions) (entries []*store.Entry, version uint64, from string, err error) {
	resource := sel.kind.Stored()
	if o.Continue != "" {
		var at int64
		if from, at, err = storage.DecodeContinue(o.Continue, root); err != nil {
			return nil, 0, "", apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
		if at <= 0 { // the token continues with the current objects
			entries, version = all.List(resource, sel.namespace)
			return entries, version, from, nil
		}
		entries, err = all.ListAt(resource, sel.namespace, uint64(at))
		if errors.Is(err, store.ErrTooOld) {
			err = expiredPage(from)
		}
		return entries, uint64(at), from, err
	}
	wanted, err := storage.APIObjectVersioner{}.ParseResourceVersion(o.ResourceVersion)
	if err != nil {
		return nil, 0, "", apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	entries, version = all.List(resource, sel.namespace)
	switch {
	case wanted > version:
		return nil, version, "", storage.NewTooLargeResourceVersionError(wanted, version, 1)
	case wanted < version && o.ResourceVersionMatch == metav1.ResourceVersionMatchExact:
		if entries, err = all.ListAt(resource, sel.namespace, wanted); errors.Is(err, store.ErrTooOld) {
			err = apierrors.NewResourceExpired(tooOld)
		}
		version = wanted
	}
	return entries, version, "", err
}

func expiredPage(from string) error {
	next, err := storage.EncodeContinue(from, root, -1)
	if err != nil {
		return err
	}
	expired := apierrors.NewResourceExpired(pageExpired)
	expired.ErrStatus.ListMeta.Continue = next
	return expired
}
