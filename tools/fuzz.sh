#!/bin/bash
# Run every fuzz target of the repository for the time given (default 20s), each
# with two workers, or FUZZWORKERS. A crash leaves its input under testdata/fuzz,
# to be committed with the fix.
# fuzz.sh --list says the targets; an hour in all is 3600 s over their number.
set -euo pipefail
list() {
	go list -f '{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}
{{end}}' ./... | while read -r package file; do
		[ -n "$package" ] || continue
		sed -n "s#^func \(Fuzz[A-Za-z0-9_]*\)(.*#$package \1#p" "$file"
	done
}
targets=$(list)
if [ "${1:-}" = --list ]; then
	echo "$targets"
	exit
fi
for_each=${1:-20s}
count=$(wc -l <<<"$targets")
echo "$count targets, $for_each each; an hour in all: make fuzz FUZZTIME=$((3600 / count))s"
while read -r package target; do
	echo "== $package $target"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$for_each" -parallel "${FUZZWORKERS:-2}" "$package" </dev/null
done <<<"$targets"
