#!/bin/bash
# Install salabim, the simulator in Python that weft bench sim is measured
# beside, into a virtual environment of its own: build/salabim, or $1. Needs
# python3 with venv, and the Python package index or a mirror of it.
set -euo pipefail
cd "$(dirname "$0")/.."
where=${1:-build/salabim}
version=26.0.9

command -v python3 >/dev/null || {
	echo "there is no python3: install it (Debian: python3 python3-venv)" >&2
	exit 1
}
python3 -m venv "$where" || {
	rm -rf "$where"
	echo "python3 cannot make a virtual environment: install python3-venv" >&2
	exit 1
}
"$where/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 "salabim==$version" || {
	rm -rf "$where"
	echo "pip cannot install salabim $version: it comes from the Python package index, which this machine must reach, directly or by a mirror (pip config set global.index-url URL). Without salabim, weft bench sim --subject weft still works" >&2
	exit 1
}
"$where/bin/python" -c 'import salabim; print("salabim", salabim.__version__)'
