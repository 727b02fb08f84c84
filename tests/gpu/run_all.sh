#!/usr/bin/env bash
# Everything that needs a GPU, in one go; installs nothing. Each section is a process with a limit of its own, keeps what it
# has measured, and can be asked for alone.
# All of it takes longer than nine minutes: what is left out for time can be asked for in a second call with --only, or beside
# the first on another GPU (CUDA_VISIBLE_DEVICES). --only tests is every file of tests, --only test_faults one.
# Usage: tests/gpu/run_all.sh OUT [--only doctor,exports,tests,overhead,library,timing,profile,sanitizer,branches,evolution,suite,wrong,honest,seeds] [--seconds TOTAL]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
out=${1:?folder for the results}
shift
only=doctor,exports,tests,overhead,library,timing,profile
total=540
while [ $# -gt 0 ]; do
  case $1 in
    --only) only=$2; shift 2 ;;
    --seconds) total=$2; shift 2 ;;
    *) echo "unknown argument $1" >&2; exit 2 ;;
  esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
export PYTHONPATH="$PWD/src:$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
began=$SECONDS
: > "$out/sections.txt"

left() { echo $((total - (SECONDS - began))); }

# section NAME LIMIT COMMAND...: at most LIMIT seconds, never beyond the total
section() {
  local name=$1 limit=$2 code start
  shift 2
  case ",$only," in *",$name,"*) ;; *) return 0 ;; esac
  [ "$(left)" -lt "$limit" ] && limit=$(left)
  if [ "$limit" -lt 5 ]; then echo "$name: not run, the time was over" | tee -a "$out/sections.txt"; return 0; fi
  start=$SECONDS
  timeout --kill-after=10 "$limit" "$@" > "$out/$name.log" 2>&1
  code=$?
  echo "$name: exit $code after $((SECONDS - start)) s (limit $limit s)" | tee -a "$out/sections.txt"
  "$python" -m tests.gpu.summary "$out" > /dev/null 2>&1
}

section doctor 60 "$python" -m cuda_harness doctor
[ -f "$out/doctor.log" ] && cp "$out/doctor.log" "$out/doctor.txt"
pytest=("$python" -m pytest -q -m gpu -p no:cacheprovider -p no:benchmark)
parallel=() exports_limit=280
"$python" -c "import xdist" 2> /dev/null && parallel=(-n 6) exports_limit=220
# Exports compile on the host for seconds each and measure nothing: they run side by side, the rest one after the other.
section exports "$exports_limit" "${pytest[@]}" "${parallel[@]}" tests/gpu/test_exports.py --junitxml "$out/test_exports.xml"
for file in tests/gpu/test_*.py; do
  name=$(basename "$file" .py)
  [ "$name" = test_exports ] && continue
  case ",$only," in *,tests,*) only=$only,$name ;; esac
  section "$name" 240 "${pytest[@]}" -v --durations=8 "$file" --junitxml "$out/$name.xml"
done
section overhead 80 "$python" -m tests.gpu.overhead "$out"
room=$(left)
room=$((room > 400 ? 400 : room))
section library "$room" "$python" -m tests.gpu.library "$out" "$((room - 8))"
for file in tests/gpu/*timing*.py tests/gpu/*profile*.py; do
  name=$(basename "$file" .py)
  case $name in test_*|\*) continue ;; esac
  room=$(left)
  room=$((room > 430 ? 430 : room))
  section "${name%_report}" "$room" "$python" -m "tests.gpu.$name" "$out" "$((room - 8))"
done
room=$(left)
section sanitizer "$room" "$python" -m tests.gpu.library "$out/sanitized" "$((room - 8))" --sanitize --workers 3
room=$(left)
section branches "$room" "$python" -m tests.gpu.branches "$out" "$((room - 8))"
room=$(left)
section evolution "$room" "$python" -m tests.gpu.evolution "$out" "$((room - 8))"
room=$(left)
section suite "$room" "$python" -m tests.gpu.suite "$out" "$((room - 30))"
# The corpus on the GPU; and honest bundles at many seeds on the CPU's cores, which measures nothing of the GPU.
room=$(left)
section wrong "$room" "$python" -m tests.adversarial --executor cuda:0 --kind wrong --workers 8 --seconds "$((room - 25))" --out "$out/wrong.jsonl"
room=$(left)
section honest "$room" "$python" -m tests.adversarial --executor cuda:0 --kind honest --no-sanitizer --workers 8 --seconds "$((room - 25))" --out "$out/honest.jsonl"
room=$(left)
section seeds "$room" "$python" -m tests.adversarial --kind honest --seeds "${SEEDS:-20}" --first-seed "${FIRST_SEED:-40507}" --workers "$(nproc)" --seconds "$((room - 25))" --out "$out/seeds.jsonl"
"$python" -m tests.gpu.summary "$out"
cat "$out/sections.txt"
