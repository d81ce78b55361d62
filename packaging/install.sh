#!/bin/bash
# Install a built weft with its helpers, its manual pages, completions, unit and first weft.toml.
#
#   packaging/install.sh PROGRAM ROOT PREFIX UNITS
#
# PROGRAM is weft; its helpers (weft-bus) are in the same directory. ROOT is put before every path (empty for this machine), PREFIX is /usr or
# /usr/local, UNITS is the directory of systemd units. A weft.toml that is there
# stays.
set -euo pipefail
program=$1 root=$2 prefix=$3 units=$4
here=$(dirname "$0")

install -D -m 0755 "$program" "$root$prefix/bin/weft"
# the helpers are built beside it, and weft finds them there
for helper in weft-bus; do
	install -m 0755 "$(dirname "$program")/$helper" "$root$prefix/bin/$helper"
done
install -d "$root$prefix/share/man/man5" "$root$prefix/share/man/man8"
manual=$(mktemp -d)
trap 'rm -rf "$manual"' EXIT
"$program" man "$manual"
install -m 0644 "$manual"/*.5 "$root$prefix/share/man/man5"
install -m 0644 "$manual"/*.8 "$root$prefix/share/man/man8"

complete() {
	install -d "$(dirname "$2")"
	"$program" completion "$1" >"$2"
	chmod 0644 "$2"
}
complete bash "$root$prefix/share/bash-completion/completions/weft"
complete zsh "$root$prefix/share/zsh/$([ "$prefix" = /usr ] && echo vendor-completions || echo site-functions)/_weft"
complete fish "$root$prefix/share/fish/vendor_completions.d/weft.fish"

# weft.toml may hold passwords: root alone reads it
install -d "$root/etc/weft" "$root$units"
[ -e "$root/etc/weft/weft.toml" ] || install -m 0600 "$here/weft.toml" "$root/etc/weft/weft.toml"
sed "s|/usr/bin/weft|$prefix/bin/weft|" "$here/weft.service" >"$root$units/weft.service"
chmod 0644 "$root$units/weft.service"
