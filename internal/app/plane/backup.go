// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"

	"filippo.io/age"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/mgmtplane/backup"
)

// Backup saves the plane of a data directory; see backup.Save.
func Backup(ctx context.Context, dir datadir.Dir, file string, recipients ...age.Recipient) (backup.Report, error) {
	return backup.Save(ctx, dir, file, recipients...)
}

// Restore makes a data directory of a backup; see backup.Restore.
func Restore(file string, dir datadir.Dir, dryRun bool, identities ...age.Identity) (backup.Report, error) {
	return backup.Restore(file, dir, dryRun, identities...)
}
