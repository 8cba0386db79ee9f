# Takes an archive into an empty folder.
set -eu
umask 077
rm -rf "$1"
mkdir -p "$1"
exec tar --extract --directory "$1"
