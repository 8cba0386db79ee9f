#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs capstan <<.Version>>: downloads the program for this machine, checks
# that it is the one of this release, and puts it into a folder.
#
#   DIR       where to put it (default /usr/local/bin)
#   BASE_URL  where the files of the release are; a file:// URL serves, too
set -eu
: "${DIR:=/usr/local/bin}"
: "${BASE_URL:=https://github.com/capstan-dev/capstan/releases/download/<<.Version>>}"

fail() { echo "install.sh: $1" >&2; exit 1; }

case "$(uname -s)" in Linux) os=linux ;; Darwin) os=darwin ;; *) fail "there is no program for $(uname -s): use Linux or macOS" ;; esac
case "$(uname -m)" in x86_64 | amd64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; *) fail "there is no program for $(uname -m): use amd64 or arm64" ;; esac
file="capstan_${os}_${arch}"
case "$file" in
<<- range $name, $sum := .Sums >>
<<$name>>) want=<<$sum>> ;;
<<- end >>
*) fail "there is no $file in this release" ;;
esac

tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT
if command -v curl >/dev/null; then
	curl -fsSL -o "$tmp/capstan" "$BASE_URL/$file" || fail "cannot download $BASE_URL/$file"
elif command -v wget >/dev/null; then
	wget -qO "$tmp/capstan" "$BASE_URL/$file" || fail "cannot download $BASE_URL/$file"
else
	fail "install curl or wget first"
fi
if command -v sha256sum >/dev/null; then
	is="$(sha256sum <"$tmp/capstan")"
else
	is="$(shasum -a 256 <"$tmp/capstan")"
fi
test "${is%% *}" = "$want" || fail "$BASE_URL/$file has checksum ${is%% *}, not $want: it is not the file of this release, and is not installed"
chmod 755 "$tmp/capstan"
mkdir -p "$DIR"
# Beside its place first, so that one that runs is replaced and not overwritten.
cp "$tmp/capstan" "$DIR/.capstan.new" || fail "cannot write to $DIR: run as a user who may, or name another folder with DIR"
mv "$DIR/.capstan.new" "$DIR/capstan"
echo "installed $DIR/capstan: $("$DIR/capstan" version -o short)"
