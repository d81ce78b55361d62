#!/bin/bash
# Run the long proofs and write what came out, with the circumstances, to a
# directory: parsers.txt, fuzz.txt, race.txt, killed.txt, damaged.txt and attacked.txt. A file that is there is
# replaced only if its proof holds.
#
#   tools/prove.sh DIRECTORY [parsers|fuzz|race|killed|damaged|attacked ...]
#
# MUTATED is how many mutated messages each parser gets that the network reaches
# (default 10000000), and PARSERS a pattern of the tests that feed them (default
# TestMutated: all). FUZZTIME is how long each fuzz target runs (default 60s); LABS are
# the labs that run under the race detector, which need no guest.
set -euo pipefail
to=${1:?a directory for the results}
shift
proofs=("$@")
[ $# -gt 0 ] || proofs=(parsers fuzz race killed damaged attacked)
mutated=${MUTATED:-10000000}
fuzz_time=${FUZZTIME:-60s}
labs=${LABS:-nat64 nat64-stateful dns64 transit failover offload-change lns-restart isolation}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

manifest() {
	echo "command  tools/prove.sh DIRECTORY $proof"
	echo "commit   $(git rev-parse HEAD)$(git diff --quiet HEAD || echo ', changed')"
	echo "started  $started"
	echo "took     $(($(date +%s) - begun)) s"
	echo "kernel   $(uname -r)"
	echo "cpu      $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs"
	echo "go       $(go env GOVERSION)"
}

parsers() {
	local packages
	packages=$(git grep -l '^func TestMutated' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's#^#./#')
	# shellcheck disable=SC2086 # one word a package
	WEFT_MUTATED=$mutated go test -count=1 -v -timeout 6h -run "^${PARSERS:-TestMutated}" $packages >"$work/log" || {
		cut -c 1-2000 "$work/log" | grep -v '^=== RUN\|^ok ' >&2
		return 1
	}
	echo "Each parser was fed $mutated mutated messages, in sequences. None panicked; one state machine that got"
	echo "two fifths of them kept at most 4 MiB more after the second half; and each of the slowest thousand, fed"
	echo "again alone, took less than 1 ms and 1 us a byte of CPU, and allocated less than 1 MiB and 1 KiB a byte."
	echo
	sed -nE 's/^ *[a-z_]+\.go:[0-9]+: //p' "$work/log"
}

fuzz() {
	tools/fuzz.sh "$fuzz_time" | tee "$work/log" >&2
	echo "Every parser was fed random bytes for $fuzz_time; none failed."
	echo
	awk '/^== /{ target = $2 " " $3 } /^fuzz: elapsed/{ n[target] = $0 } END { for (t in n) print t, n[t] }' "$work/log" |
		sed -E 's/fuzz: elapsed: [^,]*, execs: ([0-9]+).*/\1/' | sort
}

race() {
	local pattern=${labs// /|}
	# a process in which a race is seen ends at once, and its lab fails
	CGO_ENABLED=1 WEFT_TEST_RACE=1 GORACE=halt_on_error=1 go test -race -count=1 -v -parallel 1 -timeout 60m \
		-run "^TestEveryScenarioOfTheProgramPasses$/^($pattern)$" ./internal/lab | tee "$work/log" >&2
	local passed
	passed=$(grep -c '^ *--- PASS: TestEveryScenarioOfTheProgramPasses/' "$work/log")
	if [ "$passed" != "$(wc -w <<<"$labs")" ]; then
		echo "$passed labs ran, not all of: $labs" >&2
		return 1
	fi
	echo "weft was built with the race detector and ran these labs; no race was seen."
	echo
	sed -nE 's/^ *--- PASS: TestEveryScenarioOfTheProgramPasses\/(\S+) \((.*)\)/\1 \2/p' "$work/log" | sort
}

# hours runs tests of internal/daemon that do more when they are given hours, and
# prints what they log.
hours() {
	WEFT_PROVE=1 go test -count=1 -v -parallel 8 -timeout 5h -run "$1" ./internal/daemon >"$work/log" ||
		{ cat "$work/log" >&2; return 1; }
	sed -nE 's/^ *[a-z_]+_test.go:[0-9]+: //p' "$work/log" | sort
}

killed() {
	echo "weft was killed at these points, and started again each time; the host after"
	echo "weft unload was the host before."
	echo
	hours '^TestKilledAtAny'
}

attacked() {
	echo "While the router was flooded as fast as one core sends, a subscriber logged in, a"
	echo "name resolved and a host renewed its lease, each within two seconds."
	echo
	WEFT_PROVE=1 go test -count=1 -v -timeout 30m -run '^TestEveryScenarioOfTheProgramPasses$/^attack$' ./internal/lab >"$work/log" ||
		{ cat "$work/log" >&2; return 1; }
	grep -E -- '--- PASS: .*attack' "$work/log"
}

damaged() {
	echo "weft started over files that are damaged in any way, or refused with the file"
	echo "and the remedy; none ended it by a panic."
	echo
	hours '^TestWeftStartsOver'
}

mkdir -p "$to"
for proof in "${proofs[@]}"; do
	case $proof in parsers | fuzz | race | killed | damaged | attacked) ;; *) echo "prove.sh: there is no proof $proof" >&2; exit 2 ;; esac
	started=$(date -u +%FT%TZ)
	begun=$(date +%s)
	"$proof" >"$work/result"
	{ manifest; echo; cat "$work/result"; } >"$work/file"
	mv "$work/file" "$to/$proof.txt"
	echo "$to/$proof.txt is written" >&2
done
