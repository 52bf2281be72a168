# shellcheck shell=bash
# Settings for ranks, to be sourced before mpirun or srun. Variables that are set keep their values.
# usage: source launch/env.sh

count_cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

run_ranks() (  # run_ranks N COMMAND...: on N ranks of this node, for at most HPCML_TIMEOUT (30 minutes)
  # more ranks than cores: waiting ranks of MPICH leave the cores to others, which halves the time
  (($1 <= $(count_cores))) || export MPIR_CVAR_ENABLE_HEAVY_YIELD=${MPIR_CVAR_ENABLE_HEAVY_YIELD:-1}
  # in the foreground, so that Ctrl-C reaches it; mpirun ends its ranks
  exec timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-30m}" mpirun -n "$@" </dev/null
)

command -v srun >/dev/null || unset HYDRA_LAUNCHER HYDRA_BOOTSTRAP  # set by an outer job: mpirun would wait for srun
export HDF5_USE_FILE_LOCKING=${HDF5_USE_FILE_LOCKING:-FALSE}  # NFS and Lustre often have no locks, and readers need none
