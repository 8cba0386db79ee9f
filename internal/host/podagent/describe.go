// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
	"github.com/capstan-dev/capstan/internal/pure/podstatus"
)

// maxAccounts is the maximum number of bytes read from an image's /etc/passwd: the
// file is untrusted and may be of any size.
const maxAccounts = 1 << 20

// image finds a container's image, or pulls it, according to the pull policy.
func (l *life) image(ctx context.Context, c podspec.Container) (Image, error) {
	found, err := l.node.Images.Find(c.Image)
	here := err == nil
	if err != nil && !errors.Is(err, ErrNoImage) {
		return Image{}, &waitingError{podstatus.ImageInvalid, err}
	}
	policy := c.ImagePullPolicy
	switch {
	case policy == corev1.PullNever && !here:
		return Image{}, &waitingError{podstatus.ImageNever, fmt.Errorf("%s.imagePullPolicy: image %s is not here, and is not to be pulled: import it, or set the policy to IfNotPresent", c.Field, c.Image)}
	case here && policy != corev1.PullAlways:
		return found, nil
	}
	keys, err := l.pullKeys(ctx)
	if err != nil {
		return Image{}, err
	}
	l.event(corev1.EventTypeNormal, "Pulling", "Pulling", "Pulling image %q", c.Image)
	pulled, failed := l.node.Images.Pull(ctx, c.Image, keys)
	switch {
	case failed != nil && here && found.Imported:
		l.event(corev1.EventTypeWarning, "PullFailed", "Pulling", "Running image %q as it was imported: %v", c.Image, failed)
		return found, nil
	case failed != nil && here:
		failed = fmt.Errorf("%w; an image of this name is here, which %s.imagePullPolicy IfNotPresent runs", failed, c.Field)
	}
	if failed != nil {
		return Image{}, &waitingError{podstatus.ImagePull, failed}
	}
	l.event(corev1.EventTypeNormal, "Pulled", "Pulling", "Successfully pulled image %q", c.Image)
	return pulled, nil
}

// pullKeys returns the contents of the Pod's image pull Secrets. A Secret that is
// not found is skipped, as in a kubelet: the image may need none.
func (l *life) pullKeys(ctx context.Context) (keys [][]byte, err error) {
	for _, ref := range l.current().Spec.ImagePullSecrets {
		secret := &corev1.Secret{}
		err := l.node.Live.Get(ctx, client.ObjectKey{Namespace: l.key.Namespace, Name: ref.Name}, secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read Secret %s of a registry: %w", ref.Name, err)
		}
		if key := secret.Data[corev1.DockerConfigJsonKey]; len(key) > 0 {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// known reads the facts for environments and volumes.
func (l *life) known(ctx context.Context, services bool) (podspec.Facts, error) {
	f := podspec.Facts{
		Host: podspec.Host{Node: l.node.Object, Address: l.node.Address}, PodIP: l.address.String(),
		Objects: podspec.Objects{Secrets: map[string]*corev1.Secret{}, ConfigMaps: map[string]*corev1.ConfigMap{}},
	}
	names := podspec.NamesOf(l.current())
	for _, name := range names.Secrets {
		secret := &corev1.Secret{}
		if err := l.node.Live.Get(ctx, client.ObjectKey{Namespace: l.key.Namespace, Name: name}, secret); err == nil {
			f.Objects.Secrets[name] = secret
		} else if !apierrors.IsNotFound(err) {
			return f, fmt.Errorf("read Secret %s: %w", name, err)
		}
	}
	for _, name := range names.ConfigMaps {
		m := &corev1.ConfigMap{}
		if err := l.node.Live.Get(ctx, client.ObjectKey{Namespace: l.key.Namespace, Name: name}, m); err == nil {
			f.Objects.ConfigMaps[name] = m
		} else if !apierrors.IsNotFound(err) {
			return f, fmt.Errorf("read ConfigMap %s: %w", name, err)
		}
	}
	if services {
		for _, namespace := range []string{l.key.Namespace, metav1.NamespaceDefault} {
			list := &corev1.ServiceList{}
			if err := l.node.Live.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return f, fmt.Errorf("list Services: %w", err)
			}
			f.Services = append(f.Services, list.Items...)
			if l.key.Namespace == metav1.NamespaceDefault {
				break
			}
		}
	}
	return f, nil
}

// describe returns the description of a container for a sandbox.
func (l *life) describe(ctx context.Context, c podspec.Container, image Image, root string) (Container, error) {
	pod := l.current()
	facts, err := l.known(ctx, true)
	if err != nil {
		return Container{}, err
	}
	d := Container{Name: c.Name, Root: root, Dir: podspec.Dir(c.Container, image.Image), Limits: podspec.LimitsOf(c.Container), Scratch: podspec.Scratch(c.Container), MessagePath: messagePath(c), TTY: c.TTY, Stdin: c.Stdin, StdinOnce: c.StdinOnce, StopSignal: podspec.StopSignal(c.Container, image.Image)}
	if d.Env, err = podspec.Env(pod, c, image.Image, facts); err != nil {
		return Container{}, err
	}
	if d.Args, err = podspec.Command(c.Container, image.Image, d.Env); err != nil {
		return Container{}, fmt.Errorf("%s.command: %w", c.Field, err)
	}
	accounts, err := accountsOf(root)
	if err != nil {
		return Container{}, fmt.Errorf("read the users of image %s: %w", c.Image, err)
	}
	if d.User, err = podspec.UserOf(pod, c, image.Image, accounts); err != nil {
		return Container{}, &waitingError{podstatus.Config, err}
	}
	if l.node.Sandboxes.Rootless() {
		d.User.Groups = nil
	}
	if s := c.SecurityContext; s != nil && s.ReadOnlyRootFilesystem != nil {
		d.ReadOnlyRoot = *s.ReadOnlyRootFilesystem
	}
	mounts, err := podspec.MountsOf(c, d.Env)
	if err != nil {
		return Container{}, &waitingError{podstatus.Config, err}
	}
	for _, m := range mounts {
		mount, err := l.mount(pod, m)
		if err != nil {
			return Container{}, err
		}
		d.Mounts = append(d.Mounts, mount)
	}
	return d, nil
}

// mount returns the directory of a volume. A volume in memory is private to one
// container, so a volume that several containers share is in a directory, and
// counts as disk space.
func (l *life) mount(pod *corev1.Pod, m podspec.Mount) (Mount, error) {
	mount := Mount{Source: l.node.Volumes.Path(l.name, m.Volume), SubPath: m.SubPath, Target: m.Target, ReadOnly: m.ReadOnly}
	for _, v := range podspec.VolumesOf(pod) {
		if v.Name != m.Volume {
			continue
		}
		if inMemory(pod, v) {
			return Mount{Target: m.Target, ReadOnly: m.ReadOnly, Memory: true, Limit: v.Limit}, nil
		}
		mount.ReadOnly = mount.ReadOnly || !v.Empty
		if v.Empty && m.SubPath != "" {
			return mount, makeInside(mount.Source, m.SubPath)
		}
		return mount, nil
	}
	return mount, &waitingError{podstatus.Config, fmt.Errorf("spec.volumes: there is none named %q", m.Volume)}
}

// makeInside creates a directory in a volume and follows no link, which containers
// may have created, out of it.
func makeInside(volume, sub string) error {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return fmt.Errorf("open a volume: %w", err)
	}
	defer func() { _ = root.Close() }() // only read
	at := ""
	for part := range strings.SplitSeq(path.Clean(sub), "/") {
		at = path.Join(at, part)
		if err := root.Mkdir(at, 0o777); err == nil {
			err = root.Chmod(at, 0o777)
			if err != nil {
				return fmt.Errorf("make %s in a volume: %w", sub, err)
			}
		} else if !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make %s in a volume: %w", sub, err)
		}
	}
	return nil
}

// accountsOf reads the users and groups of an image, if it has any. It follows no
// link out of the image.
func accountsOf(dir string) (a podspec.Accounts, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return a, err
	}
	defer func() { _ = root.Close() }() // only read
	for name, to := range map[string]*[]byte{"etc/passwd": &a.Passwd, "etc/group": &a.Group} {
		info, err := root.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue // the image has none, or none that can be read
		}
		f, err := root.Open(name)
		if err != nil {
			return a, err
		}
		*to, err = io.ReadAll(io.LimitReader(f, maxAccounts))
		if err = errors.Join(err, f.Close()); err != nil {
			return a, err
		}
	}
	return a, nil
}

// messagePath is the path of the termination message file in a container; "" if
// that would be in a file system of the kernel.
func messagePath(c podspec.Container) string {
	target := path.Clean("/" + c.TerminationMessagePath)
	for _, kernel := range []string{"/proc", "/sys"} {
		if target == "/" || target == "/dev" || target == kernel || strings.HasPrefix(target, kernel+"/") {
			return ""
		}
	}
	return target
}

// lastMessage is the termination message of a container: what it wrote to its file,
// what the sandbox reports, or its last lines of output if it failed.
func lastMessage(p *prepared, end Exit) string {
	if text := cmp.Or(end.LastMessage, end.Message); text != "" || end.Code == 0 {
		return text
	}
	return p.log.Last()
}
