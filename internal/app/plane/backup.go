// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"context"

	"filippo.io/age"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/mgmtplane/backup"
)

// Backup saves the plane of a data directory; see backup.Save.
func Backup(ctx context.Context, dir, file string, recipients ...age.Recipient) (backup.Report, error) {
	return backup.Save(ctx, datadir.Dir(dir), file, recipients...)
}

// Restore creates a data directory from a backup; see backup.Restore.
func Restore(file, dir string, dryRun bool, identities ...age.Identity) (backup.Report, error) {
	return backup.Restore(file, datadir.Dir(dir), dryRun, identities...)
}
