#!/usr/bin/env bash
# Everything that needs a GPU, in one go: marked tests, then the report. Usage: tests/gpu/run_all.sh OUT [TRIALS] [SECONDS]
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:?folder for the results}
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
mkdir -p "$out"
"$python" -m cuda_harness doctor 2>&1 | tee "$out/doctor.txt"
"$python" -m pytest -q -m gpu tests/gpu -p no:cacheprovider 2>&1 | tee "$out/tests.txt"
"$python" -m tests.gpu.report "$out" "${2:-40}" "${3:-1800}" 2>&1 | tee "$out/report.txt"
