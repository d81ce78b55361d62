#!/bin/bash
# Make the Debian package of a built weft.
#
#   packaging/deb.sh PROGRAM VERSION DIRECTORY
#
# It needs dpkg-deb and no other packaging tool (docs/decisions/0090-debian-package.md).
# With SOURCE_DATE_EPOCH set, the same program gives the same package.
# WEFT_DEB_COMPRESSION (xz) is none in tests, which compress 50 MB otherwise.
set -euo pipefail
program=$1 to=$3
# a version like 0.1.0-dev comes before 0.1.0 in Debian's order with a tilde
version=${2//-/\~}
here=$(dirname "$0")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)}

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 0755 "$tree"
umask 022

"$here/install.sh" "$program" "$tree" /usr /usr/lib/systemd/system
gzip -9n "$tree"/usr/share/man/man[58]/*
docs=$tree/usr/share/doc/weft
install -d "$docs"
install -m 0644 "$here/debian/copyright" "$docs/copyright"
install -m 0644 "$here/../CHANGELOG.md" "$docs/NEWS"
gzip -9n "$docs/NEWS"
install -m 0644 "$here/../NOTICE" "$docs/NOTICE"
{
	echo "weft ($version) unstable; urgency=medium"
	echo
	echo "  * /usr/share/doc/weft/NEWS.gz lists the changes."
	echo
	echo " -- $(sed -n 's/^Maintainer: //p' "$here/debian/control")  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$docs/changelog.gz"

# what is linked into the programs has licences that want to be passed on
(cd "$here/.." && go list -deps -f '{{with .Module}}{{if .Version}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/...) | LC_ALL=C sort -u |
	while read -r module release directory; do
		for text in "$directory"/{LICENSE,LICENCE,COPYING,NOTICE}*; do
			[ ! -f "$text" ] || { echo "== $module $release: $(basename "$text")"; echo; cat "$text"; echo; }
		done
	done | gzip -9n >"$docs/modules-licences.gz"

install -d "$tree/DEBIAN"
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
echo /etc/weft/weft.toml >"$tree/DEBIAN/conffiles"
install -m 0755 "$here"/debian/{postinst,prerm,postrm} "$tree/DEBIAN"
machine=$(od -An -tu2 -j18 -N2 "$program" | tr -d ' ') # e_machine of the ELF header
case $machine in
62) architecture=amd64 ;;
183) architecture=arm64 ;;
*) echo "deb.sh: $program is for a machine (ELF $machine) that weft has no package for" >&2; exit 1 ;;
esac
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" \
	-e "s/@SIZE@/$(du -k -s --apparent-size --exclude=DEBIAN "$tree" | cut -f1)/" "$here/debian/control" >"$tree/DEBIAN/control"

# the times of the files are the package's, not those of this run
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
file=$to/weft_${version}_$architecture.deb
mkdir -p "$to"
dpkg-deb --root-owner-group -Z"${WEFT_DEB_COMPRESSION:-xz}" --build "$tree" "$file" >/dev/null
echo "$file"
