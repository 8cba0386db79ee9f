// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// Backup describes a backup.
type Backup struct {
	Created time.Time
	// Bytes is the size of the snapshot of etcd in it.
	Bytes int64
}

// maxWork is the work factor of the passphrases that age itself writes. A file may
// require more, and gigabytes of memory with it.
const maxWork = 18

type backupOptions struct {
	dir, file      string
	recipients     []string
	passphraseFile string
	identityFile   string
	dryRun         bool
}

func newBackup(env *Env, run func(context.Context, *Env, backupOptions) error) *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Save what the management plane keeps into a file",
		Long: `Save what the management plane keeps into a new file: a snapshot of its store,
and its authorities and keys. The plane may run or not.

Who has the file is an administrator of the plane and of all its clusters: it is
written for you alone to read, and encrypted with --recipient or
--passphrase-file (https://age-encryption.org). Simulated and container machines
are not in it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runChecked(cmd, env, o, args[0], run)
		},
	}
	dataDirFlag(cmd, env, &o.dir)
	cmd.Flags().StringSliceVar(&o.recipients, "recipient", nil, "public key of age that the backup is encrypted for; may be given several times")
	cmd.Flags().StringVar(&o.passphraseFile, "passphrase-file", "", "file whose first line is the passphrase that the backup is encrypted with")
	cmd.MarkFlagsMutuallyExclusive("recipient", "passphrase-file")
	return cmd
}

func newRestore(env *Env, run func(context.Context, *Env, backupOptions) error) *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Create a data directory from a backup",
		Long: `Create a data directory from a backup; "capstan up" continues with it. The
directory must not exist, or must be empty. The whole file is checked before the
first write; --dry-run checks that it can be restored, and removes what it wrote.

No other plane may run with the same objects: both would control the same
clusters.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runChecked(cmd, env, o, args[0], run)
		},
	}
	dataDirFlag(cmd, env, &o.dir)
	cmd.Flags().StringVar(&o.identityFile, "identity", "", "file of secret keys of age that decrypt the backup")
	cmd.Flags().StringVar(&o.passphraseFile, "passphrase-file", "", "file whose first line is the passphrase that the backup was encrypted with")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only check that the backup can be restored")
	cmd.MarkFlagsMutuallyExclusive("identity", "passphrase-file")
	return cmd
}

func runChecked(cmd *cobra.Command, env *Env, o backupOptions, file string, run func(context.Context, *Env, backupOptions) error) (err error) {
	if err := checkGiven(cmd); err != nil {
		return err
	}
	if env.Backup == nil || env.Restore == nil {
		return fmt.Errorf("this program is for %s/%s and has no management plane in it: run \"capstan %s\" on Linux", runtime.GOOS, runtime.GOARCH, cmd.Name())
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return fmt.Errorf("find data directory: %w", err)
	}
	o.file = file
	return run(cmd.Context(), env, o)
}

func runBackup(ctx context.Context, env *Env, o backupOptions) error {
	var recipients []age.Recipient
	for _, text := range o.recipients {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return command.Misuse(fmt.Errorf("--recipient %q is no public key of age: %w", text, err))
		}
		recipients = append(recipients, r)
	}
	if o.passphraseFile != "" {
		phrase, err := readPassphrase(o.passphraseFile)
		if err != nil {
			return err
		}
		r, err := age.NewScryptRecipient(phrase)
		if err != nil {
			return err
		}
		recipients = append(recipients, r)
	}
	b, err := env.Backup(ctx, o.dir, o.file, recipients...)
	if err != nil {
		return err
	}
	how := ", encrypted"
	if len(recipients) == 0 {
		how = "; the file grants administrator access to the plane and its clusters"
	}
	env.Print("Saved %s with a store of %s in %s%s", o.dir, mebibytes(b.Bytes), o.file, how)
	return nil
}

func runRestore(_ context.Context, env *Env, o backupOptions) error {
	identities, err := o.identities()
	if err != nil {
		return err
	}
	b, err := env.Restore(o.file, o.dir, o.dryRun, identities...)
	if err != nil {
		return err
	}
	if o.dryRun {
		env.Print("%s is whole: of %s, with a store of %s", o.file, b.Created.Format(time.RFC3339), mebibytes(b.Bytes))
		return nil
	}
	env.Print("Restored %s of %s: continue with \"capstan up --data-dir %s\"", o.file, b.Created.Format(time.RFC3339), o.dir)
	return nil
}

func (o backupOptions) identities() ([]age.Identity, error) {
	switch {
	case o.identityFile != "":
		f, err := os.Open(o.identityFile)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		defer func() { _ = f.Close() }() // it was read alone
		all, err := age.ParseIdentities(f)
		if err != nil {
			return nil, fmt.Errorf("read keys of %s: %w", o.identityFile, err)
		}
		return all, nil
	case o.passphraseFile != "":
		phrase, err := readPassphrase(o.passphraseFile)
		if err != nil {
			return nil, err
		}
		i, err := age.NewScryptIdentity(phrase)
		if err != nil {
			return nil, err
		}
		i.SetMaxWorkFactor(maxWork)
		return []age.Identity{i}, nil
	}
	return nil, nil
}

func readPassphrase(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the passphrase: %w", err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return "", fmt.Errorf("read the passphrase: the first line of %s is empty", file)
	}
	return string(line), nil
}
