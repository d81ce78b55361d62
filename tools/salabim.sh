#!/bin/bash
# Install salabim, the simulator in Python that weft bench sim is measured
# beside, into a virtual environment of its own: build/salabim, or $1.
set -euo pipefail
cd "$(dirname "$0")/.."
where=${1:-build/salabim}
version=26.0.9

python3 -m venv "$where" || {
	echo "python3 cannot make a virtual environment: install python3-venv" >&2
	exit 1
}
"$where/bin/pip" install --quiet "salabim==$version"
"$where/bin/python" -c 'import salabim; print("salabim", salabim.__version__)'
