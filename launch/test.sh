#!/usr/bin/env bash
# All checks: style, tests without MPI, tests of whole jobs, tests on 1 to 4 ranks, and the commands of README.md.
# usage: ./launch/test.sh [PYTEST-ARGUMENTS]      for instance: ./launch/test.sh -k probe
set -euo pipefail
source "$(dirname "$0")/setup.sh" mpi,test
source launch/env.sh
summary=""

part() {  # part TITLE COMMAND...: run one part of the checks; the first that fails ends them all
  local begin=$SECONDS code=0
  printf '\n== %s\n' "$1"
  "${@:2}" || code=$?
  summary+=$(printf '%6d s  %s  %s' $((SECONDS - begin)) "$( ((code == 0)) && echo ok || echo FAILED)" "$1")$'\n'
  ((code == 0)) || finish "$code" "FAILED: $1 (exit code $code)"
}

finish() {  # finish CODE SENTENCE
  printf '\n%s%6d s  in all\n%s\n' "$summary" "$SECONDS" "$2"
  exit "$1"
}

tests() {  # tests RANKS PYTEST-ARGUMENTS...: 0 ranks is a plain pytest; choosing no test is no failure
  local code=0 run=(timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-10m}")
  (($1 == 0)) || run=(run_ranks "$1")
  "${run[@]}" python -m pytest -p no:cacheprovider "${@:2}" || code=$?
  return $((code == 5 ? 0 : code))
}

folders=()
for folder in tests/unit tests/conformance tests/jobs; do [[ ! -d $folder ]] || folders+=("$folder"); done

part "style: ruff check" ruff check --quiet
part "style: ruff format" ruff format --check --quiet
part "tests without MPI, and of whole jobs" tests 0 "${folders[@]}" "$@"
for ranks in 1 2 3 4; do
  part "tests on $ranks rank(s)" tests "$ranks" tests/mpi -m mpi "$@"
done
part "the commands of README.md" python tests/readme_commands.py
finish 0 "all checks passed"
