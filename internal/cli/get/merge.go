// SPDX-License-Identifier: Apache-2.0

package get

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// lockTimeout is how long another program may hold the lock of a kubeconfig, which
// takes it for moments.
const lockTimeout = 10 * time.Second

// merge adds the current context of a kubeconfig to the one at path, under a name
// for all that belongs to it, and sets it as the current one if use is set. It
// returns the address of another cluster that had the name.
func merge(ctx context.Context, path, name string, data []byte, use bool) (replaced string, err error) {
	added, err := clientcmd.Load(data)
	if err != nil {
		return "", errors.New("it cannot be read") // the decoder's error may quote it
	}
	of := added.Contexts[added.CurrentContext]
	if of == nil {
		return "", errors.New("it has no current context")
	}
	cluster, user := added.Clusters[of.Cluster], added.AuthInfos[of.AuthInfo]
	// The user's own file may be a link to where it is kept: that stays one.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		all, err = clientcmdapi.NewConfig(), nil
	}
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return "", err
	}
	if err != nil {
		return "", errors.New("it is not a kubeconfig: correct it, or name another with --merge=FILE")
	}
	if before := all.Clusters[name]; before != nil && string(before.CertificateAuthorityData) != string(cluster.CertificateAuthorityData) {
		replaced = before.Server
	}
	context := clientcmdapi.NewContext()
	if before := all.Contexts[name]; before != nil {
		context.Namespace = before.Namespace // a choice of the user
	}
	context.Cluster, context.AuthInfo = name, name
	all.Clusters[name], all.AuthInfos[name], all.Contexts[name] = cluster, user, context
	if use {
		all.CurrentContext = name
	}
	text, err := clientcmd.Write(*all)
	if err != nil {
		return "", err
	}
	return replaced, atomicfile.WriteOutput(path, text)
}

// lock takes the lock that kubectl and others take before they change a kubeconfig:
// a file next to it that only one can create.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	name := path + ".lock"
	deadline := time.Now().Add(lockTimeout)
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case err == nil:
			return func() error { return os.Remove(name) }, f.Close()
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		case time.Now().After(deadline):
			return nil, fmt.Errorf("another program changes it: if none does, remove %s", name)
		}
		// No event reports that a file is removed.
		if err := lifecycle.Sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
