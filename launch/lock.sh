#!/usr/bin/env bash
# Writes requirements.lock: the versions in the environment that test.sh makes in a fresh clone.
# usage: ./launch/lock.sh
set -euo pipefail
source "$(dirname "$0")/setup.sh" mpi,test,docs
version=$(python -c 'import platform; print(platform.python_version(), platform.machine())')
{
  echo "# The versions of the checks, on Python $version. To install them: pip install -c requirements.lock '.[all]'"
  python -m pip freeze --all --exclude pip --exclude-editable
} >requirements.lock
