# shellcheck shell=bash
# Changes to the project's folder and activates a Python environment with hpcml; sourced by other scripts.
# usage: source launch/setup.sh EXTRAS      EXTRAS: the extras of pyproject.toml to install, as in "mpi,test"
# The environment is the active one, else .venv, which is created. Further runs install nothing and need no network.

CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
if [[ -n ${VIRTUAL_ENV:-} && ! -x $VIRTUAL_ENV/bin/python ]]; then
  echo "the active environment $VIRTUAL_ENV has no bin/python; run \`unset VIRTUAL_ENV\` and start again" >&2
  exit 2
fi

if [[ -z ${VIRTUAL_ENV:-} ]]; then
  if [[ ! -x .venv/bin/python || ! -f .venv/bin/activate ]] || ! grep -qF -- "$PWD/.venv" .venv/bin/activate; then
    python=""
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
      if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$name && break; fi
    done
    if [[ -z $python ]]; then
      echo "no Python 3.11 or newer with the module venv ($(python3 --version 2>/dev/null || echo "no python3"));" \
        "install it (on Debian or Ubuntu: apt install python3-venv) or activate an environment" >&2
      exit 2
    fi
    echo "== creating the virtual environment .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
    unset python name
  fi
  # shellcheck disable=SC1091
  source .venv/bin/activate
fi

# The stamp of an extra has the folder and the pyproject.toml of its installation.
hpcml_stamp="$PWD $(cksum <pyproject.toml)"
hpcml_missing=""
for hpcml_extra in ${1//,/ }; do
  [[ $(cat "$VIRTUAL_ENV/hpcml-$hpcml_extra.stamp" 2>/dev/null) == "$hpcml_stamp" ]] || hpcml_missing=$1
done
if [[ -n $hpcml_missing ]]; then
  echo "== installing hpcml[$1] into $VIRTUAL_ENV, which takes a minute or two"
  hpcml_begin=$SECONDS
  if ! "$VIRTUAL_ENV/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[$1]"; then
    echo "the installation of hpcml[$1] failed (see above); it needs the network" >&2
    exit 1
  fi
  for hpcml_extra in ${1//,/ }; do echo "$hpcml_stamp" >"$VIRTUAL_ENV/hpcml-$hpcml_extra.stamp"; done
  echo "== installed in $((SECONDS - hpcml_begin)) s"
fi
unset hpcml_stamp hpcml_missing hpcml_extra hpcml_begin
