"""A run folder: configuration, lock, checkpoints, history, joining; and the loop around work.

    with session_of(comm) as session, RunFolder(session.comm, target.output, session.log) as folder:
        state = folder.prepare(RunConfig(method, data, options), target)  # locked from here on
        before = Checkpoints(session.comm, folder.checkpoints, session.log).newest()
        driver.run(solver.solve(labels, driver), job, log)  # raises Interrupted after a checkpoint

What comes in are a session (ranks, log, signals), a target (a folder, `force`, `resume`) and the options of a method. What goes out
are files, each complete or absent. `driver` is the one loop around all long work; a solver asks a `Stop` whether to stop. No method
is known here. Begin with `session`, `folder`, `driver` and `checkpoint`.
"""
