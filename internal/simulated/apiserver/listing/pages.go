// SPDX-License-Identifier: Apache-2.0

package listing

import (
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
	exact, from, err := storage.ValidateListOptions(root, storage.APIObjectVersioner{}, storage.ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch, Recursive: true,
		Predicate: storage.SelectionPredicate{Limit: o.Limit, Continue: o.Continue},
	})
	if err != nil {
		return nil, 0, "", err
	}
	entries, version = all.List(sel.kind.Stored(), sel.namespace)
	wanted, _ := storage.APIObjectVersioner{}.ParseResourceVersion(o.ResourceVersion) // it was validated
	switch {
	case wanted > version:
		return nil, version, "", storage.NewTooLargeResourceVersionError(wanted, version, 1)
	case exact <= 0 || uint64(exact) == version: // a token can continue with the current objects
		return entries, version, from, nil
	}
	entries, err = all.ListAt(sel.kind.Stored(), sel.namespace, uint64(exact))
	switch {
	case err == nil && uint64(exact) < version:
	case from != "":
		err = expiredPage(from)
	default:
		err = apierrors.NewResourceExpired(tooOld)
	}
	return entries, uint64(exact), from, err
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
