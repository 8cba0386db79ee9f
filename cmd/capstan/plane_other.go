// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"context"

	"github.com/capstan-dev/capstan/internal/app/planeoptions"
	"github.com/capstan-dev/capstan/internal/cli"
)

// planes starts none: a plane runs on Linux, and on other systems this program is
// a client of one.
func planes() func(context.Context, planeoptions.Options) (cli.Plane, error) { return nil }

// keep leaves out what needs a plane.
func keep(*cli.Env) {}
