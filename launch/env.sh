# shellcheck shell=bash
# Sourced before mpirun or srun: sensible settings for ranks. What you have set yourself stays.
# usage: source launch/env.sh

count_cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

run_ranks() (  # run_ranks N COMMAND...: on N ranks of this node, for at most HPCML_TIMEOUT (30 minutes)
  # more ranks than cores: those of MPICH that wait for others let these compute, and halve what the job takes
  (($1 <= $(count_cores))) || export MPIR_CVAR_ENABLE_HEAVY_YIELD=${MPIR_CVAR_ENABLE_HEAVY_YIELD:-1}
  # in the foreground, so that Ctrl-C reaches it; mpirun takes its ranks with it, however it ends
  exec timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-30m}" mpirun -n "$@" </dev/null
)

command -v srun >/dev/null || unset HYDRA_LAUNCHER HYDRA_BOOTSTRAP  # of an outer job: MPICH's mpirun would wait for srun for ever
export HDF5_USE_FILE_LOCKING=${HDF5_USE_FILE_LOCKING:-FALSE}  # NFS and Lustre often cannot lock; readers need no lock
