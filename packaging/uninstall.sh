#!/bin/bash
# Remove what packaging/install.sh has installed; /etc/weft stays.
#
#   packaging/uninstall.sh ROOT PREFIX UNITS
set -euo pipefail
root=$1 prefix=$2 units=$3
rm -f "$root$prefix/bin/weft" "$root$prefix/bin/weft-bus" "$root$units/weft.service" \
	"$root$prefix"/share/man/man5/weft.toml.5 "$root$prefix"/share/man/man8/weft.8 "$root$prefix"/share/man/man8/weft-*.8 \
	"$root$prefix/share/bash-completion/completions/weft" \
	"$root$prefix"/share/zsh/{vendor-completions,site-functions}/_weft \
	"$root$prefix/share/fish/vendor_completions.d/weft.fish"
