"""CUDA graphs, by the runtime. `documented` is by the CUDA Runtime API reference, "Graph Management"."""

from calls import Out, Ref, call, row, setup

from .memory import DONE, INVALID

GRAPH = setup("cudaGraphCreate", Out("g"), 0)
NODE = setup("cudaGraphAddEmptyNode", Out("n"), Ref("g"), 0, 0)
EXECUTABLE = setup("cudaGraphInstantiate", Out("x"), Ref("g"), 0)

ROWS = [
    row("cudaGraphCreate", call("cudaGraphCreate", Out("g"), 0), documented=DONE),
    row("cudaGraphCreate with flags", call("cudaGraphCreate", Out("g"), 1), documented=INVALID),
    row("cudaGraphCreate without a place", call("cudaGraphCreate", 0, 0), documented=INVALID),
    row("cudaGraphDestroy of null", call("cudaGraphDestroy", 0)),
    row("cudaGraphInstantiate of null", call("cudaGraphInstantiate", Out("x"), 0, 0), documented=INVALID),
    row("cudaGraphInstantiate with unknown flags", GRAPH, call("cudaGraphInstantiate", Out("x"), Ref("g"), 0x4000), documented=INVALID),
    row("cudaGraphLaunch of an empty graph", GRAPH, EXECUTABLE, call("cudaGraphLaunch", Ref("x"), 0), documented=DONE),
    row("cudaGraphLaunch of null", call("cudaGraphLaunch", 0, 0), documented=INVALID),
    row("cudaGraphLaunch after its graph was destroyed", GRAPH, NODE, EXECUTABLE, setup("cudaGraphDestroy", Ref("g")), call("cudaGraphLaunch", Ref("x"), 0), documented=DONE),
    row("cudaGraphExecDestroy of null", call("cudaGraphExecDestroy", 0)),
    row("cudaGraphAddEmptyNode to null", call("cudaGraphAddEmptyNode", Out("n"), 0, 0, 0), documented=INVALID),
    row("cudaGraphAddEmptyNode after a list that is null", GRAPH, call("cudaGraphAddEmptyNode", Out("n"), Ref("g"), 0, 1), documented=INVALID),
    row("cudaGraphGetNodes", GRAPH, NODE, call("cudaGraphGetNodes", Ref("g"), 0, Out("count", "u64")), documented=DONE),
    row("cudaGraphGetNodes of null", call("cudaGraphGetNodes", 0, 0, Out("count", "u64")), documented=INVALID),
    row("cudaGraphNodeGetType of an empty node", GRAPH, NODE, call("cudaGraphNodeGetType", Ref("n"), Out("type", "i32")), documented=DONE),
    row("cudaGraphNodeGetType of null", call("cudaGraphNodeGetType", 0, Out("type", "i32")), documented=INVALID),
    row("cudaGraphDestroyNode of null", call("cudaGraphDestroyNode", 0)),
    row("cudaGraphClone of null", call("cudaGraphClone", Out("c"), 0), documented=INVALID),
    row("cudaGraphUpload", GRAPH, EXECUTABLE, call("cudaGraphUpload", Ref("x"), 0), documented=DONE),
    row("cudaGraphAddChildGraphNode of null", GRAPH, call("cudaGraphAddChildGraphNode", Out("n"), Ref("g"), 0, 0, 0), documented=INVALID),
    row("cudaGraphKernelNodeGetParams of an empty node", GRAPH, NODE, call("cudaGraphKernelNodeGetParams", Ref("n"), Out("p", None, 128)), documented=INVALID),
]
