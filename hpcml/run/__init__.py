"""Run folders: configuration, lock, checkpoints, history, merging; and the training loop.

    with open_session(comm) as session, RunFolder(session.comm, target.output, session.log) as folder:
        state = folder.prepare(RunConfig(method, data, options), target)  # locked from here on
        before = Checkpoints(session.comm, folder.checkpoints, session.log).newest()
        driver.run(solver.solve(labels, driver), job, log)  # raises Interrupted after a checkpoint

Inputs are a session (ranks, log, signals), a target (a folder, `force`, `resume`) and the options of a method. Outputs are files,
each complete or absent. `driver` is the only loop for long work; a solver asks a `Stop` whether to stop. No method is known here.
Begin with `session`, `folder`, `driver` and `checkpoint`.
"""
