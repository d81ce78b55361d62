#!/bin/bash
# Run every fuzz target of the repository for the time given (default 20s).
# A crash leaves its input under testdata/fuzz, to be committed with the fix.
set -euo pipefail
for_each=${1:-20s}
go list -f '{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}
{{end}}' ./... | while read -r package file; do
	[ -n "$package" ] || continue
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		echo "== $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$for_each" -parallel 2 "$package" </dev/null
	done
done
