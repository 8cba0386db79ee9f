// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Names are the names of the objects that a Pod's environments and volumes refer to.
type Names struct{ Secrets, ConfigMaps []string }

// NamesOf lists the names that a Pod refers to, each once, optional or not.
func NamesOf(pod *corev1.Pod) Names {
	var n Names
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			n.Secrets = append(n.Secrets, v.Secret.SecretName)
		}
		if v.ConfigMap != nil {
			n.ConfigMaps = append(n.ConfigMaps, v.ConfigMap.Name)
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.Secret != nil {
					n.Secrets = append(n.Secrets, s.Secret.Name)
				}
				if s.ConfigMap != nil {
					n.ConfigMaps = append(n.ConfigMaps, s.ConfigMap.Name)
				}
			}
		}
	}
	for _, c := range Containers(pod) {
		for _, from := range c.EnvFrom {
			if from.SecretRef != nil {
				n.Secrets = append(n.Secrets, from.SecretRef.Name)
			}
			if from.ConfigMapRef != nil {
				n.ConfigMaps = append(n.ConfigMaps, from.ConfigMapRef.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				n.Secrets = append(n.Secrets, e.ValueFrom.SecretKeyRef.Name)
			}
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				n.ConfigMaps = append(n.ConfigMaps, e.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
	}
	for _, list := range []*[]string{&n.Secrets, &n.ConfigMaps} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return n
}

// Volume is a volume for which a Pod has a directory.
type Volume struct {
	Name string
	// Empty is a volume that containers write to; others hold files that follow objects.
	// Memory says that it is stored in memory, and Limit how many bytes it holds at
	// most: 0 is no limit.
	Empty, Memory bool
	Limit         int64
}

// VolumesOf lists the volumes of a Pod.
func VolumesOf(pod *corev1.Pod) []Volume {
	var all []Volume
	for _, v := range pod.Spec.Volumes {
		volume := Volume{Name: v.Name}
		if e := v.EmptyDir; e != nil {
			volume.Empty, volume.Memory = true, e.Medium == corev1.StorageMediumMemory
			if e.SizeLimit != nil {
				volume.Limit = e.SizeLimit.Value()
			}
		}
		all = append(all, volume)
	}
	return all
}

// Token is a token of a ServiceAccount in a volume.
type Token struct {
	Volume, Path, Audience string
	// Seconds is the requested lifetime.
	Seconds int64
	Mode    int32
}

// TokensOf lists the tokens in a Pod's volumes.
func TokensOf(pod *corev1.Pod) []Token {
	var all []Token
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if t := s.ServiceAccountToken; t != nil {
				token := Token{Volume: v.Name, Path: t.Path, Audience: t.Audience, Seconds: 3600, Mode: modeOf(nil, v.Projected.DefaultMode)}
				if t.ExpirationSeconds != nil {
					token.Seconds = *t.ExpirationSeconds
				}
				all = append(all, token)
			}
		}
	}
	return all
}

// File is a file in a volume.
type File struct {
	Path string
	Data []byte
	Mode int32
}

// Files are the files of a volume that follows objects, sorted by path, except for
// tokens of ServiceAccounts; an empty volume has none.
func Files(pod *corev1.Pod, volume string, f Facts) ([]File, error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	if i < 0 {
		return nil, fmt.Errorf("spec.volumes: there is none named %q", volume)
	}
	v, field := pod.Spec.Volumes[i], fmt.Sprintf("spec.volumes[%d]", i)
	p := &projection{pod: pod, facts: f, files: map[string]File{}}
	var err error
	switch {
	case v.Secret != nil:
		err = p.object(source{field + ".secret", "Secret", v.Secret.SecretName, v.Secret.Items, v.Secret.Optional, v.Secret.DefaultMode})
	case v.ConfigMap != nil:
		err = p.object(source{field + ".configMap", "ConfigMap", v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional, v.ConfigMap.DefaultMode})
	case v.DownwardAPI != nil:
		err = p.downward(field+".downwardAPI", v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		err = p.projected(field+".projected", v.Projected)
	}
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		files = append(files, p.files[name])
	}
	return files, nil
}

// source is the source of files in a volume.
type source struct {
	field, kind, name string
	items             []corev1.KeyToPath
	optional          *bool
	mode              *int32
}

type projection struct {
	pod   *corev1.Pod
	facts Facts
	files map[string]File
}

func (p *projection) projected(field string, v *corev1.ProjectedVolumeSource) error {
	for i, s := range v.Sources {
		at := fmt.Sprintf("%s.sources[%d]", field, i)
		var err error
		switch {
		case s.Secret != nil:
			err = p.object(source{at + ".secret", "Secret", s.Secret.Name, s.Secret.Items, s.Secret.Optional, v.DefaultMode})
		case s.ConfigMap != nil:
			err = p.object(source{at + ".configMap", "ConfigMap", s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional, v.DefaultMode})
		case s.DownwardAPI != nil:
			err = p.downward(at+".downwardAPI", s.DownwardAPI.Items, v.DefaultMode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *projection) object(s source) error {
	optional := s.optional != nil && *s.optional
	data, ok := p.facts.Objects.data(s.kind, s.name)
	if !ok && !optional {
		return &MissingError{Field: s.field, Kind: s.kind, Name: s.name}
	}
	if len(s.items) == 0 {
		for key, value := range data {
			p.files[key] = File{key, value, modeOf(nil, s.mode)}
		}
		return nil
	}
	for i, item := range s.items {
		value, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			return &MissingError{Field: fmt.Sprintf("%s.items[%d]", s.field, i), Kind: s.kind, Name: s.name, Key: item.Key}
		}
		if err := p.add(fmt.Sprintf("%s.items[%d].path", s.field, i), File{item.Path, value, modeOf(item.Mode, s.mode)}); err != nil {
			return err
		}
	}
	return nil
}

func (p *projection) downward(field string, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for i, item := range items {
		at := fmt.Sprintf("%s.items[%d]", field, i)
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = Field(p.pod, item.FieldRef.FieldPath, p.facts)
		case item.ResourceFieldRef != nil:
			text, err = resource(p.pod, "", item.ResourceFieldRef, p.facts.Host.Node)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if err := p.add(at+".path", File{item.Path, []byte(text), modeOf(item.Mode, mode)}); err != nil {
			return err
		}
	}
	return nil
}

// add refuses what the API server should have refused: a path that leaves the volume.
func (p *projection) add(field string, f File) error {
	if !local(f.Path) {
		return fmt.Errorf("%s: %q leaves the volume: use a path inside of it", field, f.Path)
	}
	f.Path = path.Clean(f.Path)
	p.files[f.Path] = f
	return nil
}

// local reports whether a path stays below its start.
func local(p string) bool {
	clean := path.Clean(p)
	return p != "" && clean != "." && clean != ".." && !path.IsAbs(clean) && !strings.HasPrefix(clean, "../")
}

func modeOf(own, volume *int32) int32 {
	if m := cmp.Or(own, volume); m != nil {
		return *m & 0o777
	}
	return 0o644
}

// Mount is a volume's place in a container.
type Mount struct {
	Volume, Target, SubPath string
	ReadOnly                bool
}

// MountsOf lists the mounts of a container, the outer ones first: a volume that is
// mounted after another one below its mount point would hide that.
func MountsOf(c Container, env []string) ([]Mount, error) {
	var all []Mount
	for i, m := range c.VolumeMounts {
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = Expand(m.SubPathExpr, In(env))
		}
		if sub != "" && !local(sub) {
			return nil, fmt.Errorf("%s.volumeMounts[%d].subPath: %q leaves the volume: use a path inside of it", c.Field, i, sub)
		}
		target := path.Clean("/" + m.MountPath)
		if target == "/" {
			return nil, fmt.Errorf("%s.volumeMounts[%d].mountPath: a volume cannot be the root: use a folder", c.Field, i)
		}
		all = append(all, Mount{Volume: m.Name, Target: target, SubPath: sub, ReadOnly: m.ReadOnly})
	}
	slices.SortStableFunc(all, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
	return all, nil
}
