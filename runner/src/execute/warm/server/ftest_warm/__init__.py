# The warm process: it has imported PyTorch, and forks the processes of a run. `server` is where it begins; each module imports what it
# uses from those that are listed before it: kernel, checks, sources, programs, request, forks, workers, child, server.
