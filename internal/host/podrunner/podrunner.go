// SPDX-License-Identifier: Apache-2.0

// Package podrunner connects the runner of Pods to the sandboxes and the images of
// this host.
package podrunner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/host/kubelet"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/host/podagent"
	"github.com/capstan-dev/capstan/internal/kit/registry"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// Images are the images of a store. Registries is the file with the configuration
// of registries; "" means none.
type Images struct {
	*ociimages.Store
	Registries string
}

// Find implements podagent.Images. It uses the full name, which is never a part of a
// digest: a Pod must not get an image of another author by some of its digits.
func (i Images) Find(ref string) (podagent.Image, error) {
	name, err := registry.Name(ref)
	if err != nil {
		return podagent.Image{}, err
	}
	found, err := i.Store.Find(name)
	if errors.As(err, new(*ociimages.MissingError)) {
		err = fmt.Errorf("%w: %w", podagent.ErrNoImage, err)
	}
	return image(found), err
}

// Pull implements podagent.Images.
func (i Images) Pull(ctx context.Context, ref string, keys [][]byte) (podagent.Image, error) {
	chain, err := keychain(keys)
	if err != nil {
		return podagent.Image{}, err
	}
	gone, err := i.Relieve(ctx)
	for _, g := range gone {
		ctrl.LoggerFrom(ctx).Info("Removed an image that no Pod runs: the disk is nearly full", "digest", g.Digest, "names", g.Names)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Look for images that could go") // there may still be enough space
	}
	pulled, err := i.Store.Pull(ctx, ref, ociimages.PullOptions{Keychain: chain, Registries: i.Registries})
	return image(pulled), err
}

func image(i ociimages.Image) podagent.Image {
	c := i.Config
	return podagent.Image{Digest: i.Digest, Imported: i.Imported, Image: podspec.Image{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, User: c.User, Dir: c.WorkingDir, StopSignal: c.StopSignal,
	}}
}

// keychain reads the credentials in Secrets of registries, as Docker writes them; nil if
// there are none. Its errors contain nothing of the Secrets.
func keychain(secrets [][]byte) (authn.Keychain, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	all := registry.Keys{}
	for _, secret := range secrets {
		var config struct {
			Auths registry.Keys `json:"auths"`
		}
		if json.Unmarshal(secret, &config) != nil {
			return nil, errors.New("a Secret of spec.imagePullSecrets holds no configuration of Docker in .dockerconfigjson: make it with kubectl create secret docker-registry")
		}
		for name, auth := range config.Auths {
			name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://"), "/")
			if host, version, _ := strings.Cut(name, "/"); version == "v1" || version == "v2" {
				name = host // that of the API, as Docker writes it for its own registry
			}
			all[name] = auth
		}
	}
	return all, nil
}

// Kubelet serves the Pods of a node.
type Kubelet struct{ *podagent.Node }

// Exec implements kubelet.Pods.
func (k Kubelet) Exec(ctx context.Context, namespace, pod, container string, c kubelet.Command) (int, error) {
	return k.Node.Exec(ctx, namespace, pod, container, c.Args, c.Streams)
}

// Attach implements kubelet.Pods.
func (k Kubelet) Attach(ctx context.Context, namespace, pod, container string, c kubelet.Command) error {
	return k.Node.Attach(ctx, namespace, pod, container, c.Streams)
}

// Dial implements kubelet.Pods.
func (k Kubelet) Dial(ctx context.Context, namespace, pod string, port int) (io.ReadWriteCloser, error) {
	return k.Node.DialNamed(ctx, namespace, pod, port)
}
