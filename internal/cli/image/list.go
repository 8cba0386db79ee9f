// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
)

func (o *options) newList() *cobra.Command {
	list := &cobra.Command{
		Use:   "list",
		Short: "List images, who uses them, and how large they are",
		Args:  command.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.list(cmd.Context()) },
	}
	command.OutputFlag(list, &o.output, "a table", "json", "yaml")
	list.Flags().BoolVar(&o.verify, "verify", false, "read all files of node images, and compare them with their digests")
	return list
}

// The kinds of images.
const (
	node      = "node"
	container = "container"
)

// listed is an image as list shows it.
type listed struct {
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Bytes int64  `json:"bytes"`
	InUse bool   `json:"inUse"`
	// Of node images.
	Version      string            `json:"kubernetesVersion,omitempty"`
	Architecture string            `json:"architecture,omitempty"`
	Source       string            `json:"source,omitempty"`
	Parts        map[string]string `json:"parts,omitempty"`
	Users        []string          `json:"users,omitempty"` // machines
	// Of container images.
	Names    []string `json:"names,omitempty"`
	Platform string   `json:"platform,omitempty"`
}

func (o *options) list(ctx context.Context) error {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	all, damaged, err := o.nodes(ctx)
	if err != nil {
		return err
	}
	containers, err := o.containers()
	if err != nil {
		return err
	}
	all = append(all, containers...)
	if o.output != "" {
		return errors.Join(o.env.PrintObject(all, o.output), damaged)
	}
	t := o.env.Table("KIND", "NAME", "ID", "PLATFORM", "IN USE", "SIZE")
	for _, i := range all {
		for _, name := range i.rows() {
			t.Row(i.Kind, name, short(i.ID), i.platform(), i.inUse(), size(i.Bytes))
		}
	}
	if err := errors.Join(t.Flush(), damaged); err != nil {
		return err
	}
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	if bytes, err := s.CacheSize(); err == nil && bytes > 0 {
		o.env.Say("What builds have kept takes %s, some of it shared with images. \"capstan image remove --cache\" removes it.", size(bytes))
	}
	return nil
}

// rows are the names of an image, one for each of its rows.
func (i listed) rows() []string {
	switch {
	case i.Kind == node:
		return []string{i.Version}
	case len(i.Names) == 0:
		return []string{"-"}
	}
	return i.Names
}

func (i listed) platform() string {
	if i.Kind == node {
		return "linux/" + i.Architecture
	}
	return i.Platform
}

func (i listed) inUse() string {
	switch {
	case !i.InUse:
		return "no"
	case i.Kind == container:
		return "yes"
	case len(i.Users) == 1:
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", len(i.Users))
}

// nodes lists node images; damaged ones are returned as a separate error.
func (o *options) nodes(ctx context.Context) (all []listed, damaged, err error) {
	s, err := o.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	images, damaged := s.List() // those that are whole are shown in any case
	all = []listed{}
	for _, i := range images {
		if o.verify {
			damaged = errors.Join(damaged, i.Verify(ctx))
		}
		users, err := i.Users()
		if err != nil {
			return nil, nil, err
		}
		all = append(all, listed{
			Kind: node, ID: i.ID, Bytes: i.Bytes, InUse: len(users) > 0,
			Version: i.Version, Architecture: i.Architecture, Source: i.Source, Parts: i.Parts, Users: users,
		})
	}
	return all, damaged, nil
}

// containers lists container images.
func (o *options) containers() (all []listed, err error) {
	s, err := o.openContainers(ociimages.Options{})
	if err != nil {
		return nil, err
	}
	images, err := s.List()
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		used, err := s.InUse(i.Digest)
		if err != nil {
			return nil, err
		}
		all = append(all, listed{Kind: container, ID: i.Digest, Bytes: i.Size, InUse: used, Names: i.Names, Platform: i.Platform})
	}
	return all, nil
}
