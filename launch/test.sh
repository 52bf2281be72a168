#!/usr/bin/env bash
# Runs all checks: style, types, documentation and its commands, Slurm jobs, tests on 2 to 4 ranks, and all other tests.
#
# Four rows of parts run at the same time: Slurm and other versions of Python and packages; types and documentation; tests on several
# ranks; all other tests. A part that fails ends its row.
#
# Tests of rarely changed code belong to parts (tests/support/parts.py). A part runs if its inputs have changed since the commit in
# .ci/all-passed, and with --all. The last line lists the parts that did not run. When --all passes with real data (HPCML_DATA) and
# without uncommitted changes, it writes the commit to .ci/all-passed.
#
# ~/.cache/hpcml keeps compiled kernels, Slurm's packages and the environments of other versions. HPCML_FRESH=1 installs these
# environments again. mypy runs without a cache, because it can crash on the cache of an older tree.
#
# usage: ./launch/test.sh [--all] [PYTEST-ARGUMENTS]      example: ./launch/test.sh -k probe
set -euo pipefail
source "$(dirname "$0")/setup.sh" mpi,test,docs
source launch/env.sh
export OMP_NUM_THREADS=1  # ranks share the cores
all=""
if [[ ${1:-} == --all ]]; then
  all=--all
  shift
  export HPCML_NEEDS_SLURM=1 HPCML_NEEDS_BROWSER=1 HPCML_NEEDS_LOWEST_VERSIONS=1
fi
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/hpcml
mkdir -p "$cache"
HPCML_PARTS=$(python tests/support/parts.py run $all)
export HPCML_PARTS
# the tests of tests/mpi that divide ranks into groups of two, arrange them in a torus, or send messages to neighbours; for all other
# tests 2 and 4 ranks do not differ from 3
GROUPS_OF_RANKS=(test_{collectives,memory,messages,rows_ranks,psbml}.py
  test_methods_ranks.py::test_ranks_that_share_the_rows)
# the tests with the lowest versions: readers, converters, writers and estimators; `hpcml check --bits` runs all methods
LOWEST_VERSIONS=(tests/unit/{conversion/test_{formats,row_keys},data/test_shard,files/test_open_elsewhere,model/test_skops_file}.py
  tests/conformance/test_estimators.py::test_{classes,label_sets})
scratch=$(mktemp -d)
in_memory=$scratch  # tests of many ranks would wait for a disk
export HPCML_LEFT_OUT=$scratch/left_out
free=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) || free=0
if ((free > 2 ** 21)); then in_memory=$(mktemp -d /dev/shm/hpcml-tests-XXXXXX); fi
unset PYTHONDONTWRITEBYTECODE  # else each of some thousand processes compiles every module
# one folder of compiled kernels for all parts; Slurm jobs would have another one
NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$(python -c "from hpcml.kernels.cache import cache_folder; print(cache_folder())")}
export NUMBA_CACHE_DIR
has_part() { [[ " $HPCML_PARTS " == *" $1 "* ]]; }
rows=()
trap 'for row in "${rows[@]}"; do kill -INT -- "-$row" 2>/dev/null && wait "$row" || true; done; rm -rf "$scratch" "$in_memory"' EXIT

set_cpu_seconds() {  # sets cpu_seconds: the CPU time of this shell and of its ended children
  local file=$scratch/times.$BASHPID
  times >"$file"
  cpu_seconds=$(awk -F'[ms ]+' 'NR == 2 {printf "%d", 60 * ($1 + $3) + $2 + $4}' "$file")
}

part() {  # part TITLE COMMAND...: run one part of the checks and note its time
  local begin=$SECONDS code=0 cpu_seconds before result=ok
  printf '\n== %s\n' "$1"
  set_cpu_seconds
  before=$cpu_seconds
  "${@:2}" || code=$?
  set_cpu_seconds
  ((code == 0)) || result="FAILED (exit code $code)"
  printf '%6d s %6d CPU s  %s  %s\n' $((SECONDS - begin)) $((cpu_seconds - before)) "$result" "$1" >>"$scratch/summary"
  return "$code"
}

accept_no_tests() (  # accept_no_tests COMMAND...: pytest's exit code 5 is no error, because -k may select no test of a part
  code=0
  "$@" || code=$?
  exit $((code == 5 ? 0 : code))
)

with_limit() { timeout --foreground --kill-after=60 "${HPCML_TIMEOUT:-40m}" "$@"; }

test_ranks() {  # test_ranks N PYTEST-ARGUMENTS...
  TMPDIR=$in_memory accept_no_tests run_ranks "$1" python -m pytest -p no:cacheprovider --with-mpi -m mpi "${@:2}"
}

test_spread() {  # test_spread PYTEST-ARGUMENTS...: with one worker more than cores, since tests of jobs wait for their processes
  local workers
  workers=$(($(count_cores) < 8 ? $(count_cores) + 1 : 8))
  accept_no_tests with_limit python -m pytest -p no:cacheprovider --numprocesses "$workers" --dist worksteal "$@"
}

test_slurm() {  # test_slurm PYTEST-ARGUMENTS...: until the first failure, which shows the state of the cluster
  local code=0 folder=$scratch/slurm
  accept_no_tests with_limit python -m pytest -p no:cacheprovider -vv -x -rs --timeout 1200 --basetemp="$folder" tests/slurm "$@" || code=$?
  HPCML_SLURM=$folder/slurm0/here launch/slurm-here.sh down  # in case the tests did not
  return "$code"
}

# the packages of `pip install '.[all]'`: in the lowest versions of pyproject.toml, or in the newest for other Pythons
EXTRAS=mpi,tables,h5ad,zst,pubmed,serve,report,sklearn,svmperf
TOOLS=(pytest pytest-mpi pytest-timeout hypothesis anndata 'pandas<3' mpmath setuptools)

make_environment() {  # make_environment NAME PYTHON REQUIREMENTS...: sets environment, a virtual environment with these
  # A digest of its contents is part of its name. The file `complete` marks a finished installation.
  local digest
  digest=$(printf '%s\n' "$("$2" -VV)" "${@:3}" | sha256sum | cut -c 1-12)
  environment=$cache/environments/$1-$digest
  mkdir -p "$cache/environments"
  (
    exec 9>>"$cache/environments/lock"
    flock 9
    if [[ -n ${HPCML_FRESH:-} ]]; then rm -rf "$environment"; fi
    if [[ ! -f $environment/complete ]]; then
      find "$cache/environments" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
      rm -rf "$environment" && "$2" -m venv "$environment" &&
        "$environment/bin/python" -m pip --disable-pip-version-check install --quiet "${@:3}" &&
        touch "$environment/complete" || exit 1
    fi
    touch "$environment"
  ) || return 1
  "$environment/bin/python" -m pip --disable-pip-version-check list --format freeze |
    grep -iE "^($(python tests/support/lowest.py $EXTRAS | sed 's/=.*//' | paste -sd '|'))=" | paste -sd ' '
}

within() (  # within COMMAND...: run a command in $environment, with the hpcml of this folder
  export PATH=$environment/bin:$PATH VIRTUAL_ENV=$environment PYTHONPATH=$PWD
  unset PYTEST_ADDOPTS
  with_limit "$@"
)

test_lowest_versions() {
  local pins
  mapfile -t pins < <(python tests/support/lowest.py $EXTRAS)
  make_environment lowest python "${pins[@]}" "${TOOLS[@]}" &&
    within mpirun -n 2 python -m hpcml check "$scratch/lowest" --bits </dev/null &&
    accept_no_tests within python -m pytest -p no:cacheprovider "${LOWEST_VERSIONS[@]}" "$@"
}

run_other_python() {  # run_other_python PYTHON: a short run with this week's newest versions gives the same numbers
  local admitted found expected
  mapfile -t admitted < <(python tests/support/lowest.py --admitted mpi)
  make_environment "newest-$(date +%G-%V)" "$1" "${admitted[@]}" || return 1
  found=$(within python tests/support/short_run.py) && expected=$(python tests/support/short_run.py) || return 1
  echo "digest of a short run: $found, expected: $expected"
  [[ $found == "$expected" ]]
}

slurm_row() {
  local python
  part "Slurm jobs and the pages about them" test_slurm "$@" || return 1
  [[ -n ${HPCML_NEEDS_LOWEST_VERSIONS:-} ]] && has_part versions || return 0
  part "tests with the lowest versions" test_lowest_versions "$@" || return 1
  for python in ${HPCML_OTHER_PYTHONS:-}; do
    part "a run with another Python: $("$python" --version)" run_other_python "$python" || return 1
  done
}

documents_row() {
  part "types: mypy" mypy --cache-dir /dev/null hpcml &&
    part "documentation: mkdocs build" env NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet &&
    part "commands of README.md and docs" python tests/support/document_commands.py
}

ranks_row() {  # 3 ranks: no size divides evenly, and one rank is neither the first nor the last
  local groups=("${GROUPS_OF_RANKS[@]/#/tests/mpi/}") pairs=(tests/mpi/test_{collectives,messages}.py)
  ! has_part ranks || pairs=("${groups[@]}")
  part "tests on 3 ranks" test_ranks 3 tests/mpi "$@" &&
    part "tests of groups on 2 ranks" test_ranks 2 "${pairs[@]}" "$@" &&
    part "tests of groups on 4 ranks" test_ranks 4 "${groups[@]}" "$@"
}

other_tests() {
  local folders=(tests)
  ! has_part lab || folders+=(launch/lab/tests)
  part "all other tests" test_spread "${folders[@]}" --ignore=tests/slurm --ignore=tests/mpi "$@"
}

compile_kernels() {  # train all methods on one rank, unless done for these sources: else many ranks would wait for each kernel
  local stamp
  stamp=$NUMBA_CACHE_DIR/tested-$(find hpcml -path '*kernel*' -name '*.py' -print0 | sort -z | xargs -0 cat | cat - <(python -VV) requirements.lock | sha256sum | cut -c 1-16)
  [[ -f $stamp ]] || { part "compiling kernels: the bits of all methods" run_ranks 1 python -m hpcml check "$scratch/compiled" --bits && touch "$stamp"; }
}

write_passed() {  # write .ci/all-passed, if the tests ran on a commit and with real data
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null) && [[ $commit == "$begun_at" && -z $(git status --porcelain) && -n ${HPCML_DATA:-} ]] || {
    echo ".ci/all-passed is not written: it needs a tree without changes, and real data (HPCML_DATA)"
    return 0
  }
  echo "$commit" >.ci/all-passed
  echo "wrote $commit to .ci/all-passed; commit that file alone"
}

begin_row() {  # begin_row FUNCTION PYTEST-ARGUMENTS...: run a row in a process group, which Ctrl-C ends; print its output at the end
  local output=$scratch/$1.out
  set -m
  (
    exec 3>&1
    trap 'cat "$output" >&3' EXIT
    trap 'exit 130' INT
    "$@" </dev/null >"$output" 2>&1
  ) &
  rows+=($!)
  set +m
}

print_failures() {
  grep -hE '^(\[rank [0-9]+\] )?(FAILED|ERROR|E  ) |^\[rank [0-9]+\] .* end here:' "$scratch"/*.out 2>/dev/null | cut -c 1-250 | head -n 40 || true
}

begun_at=$(git rev-parse HEAD 2>/dev/null || true)
echo "== on two idle cores this takes about 10 minutes, with all parts about 15; parts that run: ${HPCML_PARTS:-none}"
code=0
part "style: ruff check" ruff check --quiet || code=$?
part "style: ruff format" ruff format --check --quiet || code=$?
if ((code == 0)); then
  # more processes than cores: waiting ranks of MPICH leave the cores to others
  export MPIR_CVAR_ENABLE_HEAVY_YIELD=${MPIR_CVAR_ENABLE_HEAVY_YIELD:-1}
  begin_row slurm_row "$@"
  begin_row documents_row "$@"
  compile_kernels || code=$?
  begin_row ranks_row "$@"
  other_tests "$@" | tee "$scratch/other_tests.out" || code=$?
  echo "waiting for the other rows"
  for row in "${rows[@]}"; do wait "$row" || code=$?; done
  rows=()
fi
set_cpu_seconds
printf '\n%s\n%6d s %6d CPU s  in all\n' "$(cat "$scratch/summary")" "$SECONDS" "$cpu_seconds"
((code == 0)) || print_failures
((code == 0)) && [[ -n $all && $# == 0 ]] && write_passed
((code == 0)) && echo "all checks passed" || echo "FAILED: see above"
python tests/support/parts.py left "$HPCML_LEFT_OUT"
exit "$code"
