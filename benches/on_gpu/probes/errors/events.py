"""Events, by the runtime. `documented` is by the CUDA Runtime API reference, "Event Management"."""

from calls import Out, Ref, call, row, setup

from .memory import DONE, INVALID
from .streams import EVENT, STREAM

SECOND = setup("cudaEventCreate", Out("f"))
UNTIMED = setup("cudaEventCreateWithFlags", Out("u"), 2)
RECORDED = setup("cudaEventRecord", Ref("e"), 0)
HANDLE = "cudaErrorInvalidResourceHandle"

ROWS = [
    row("cudaEventCreate without a place", call("cudaEventCreate", 0), documented=INVALID),
    row("cudaEventCreateWithFlags, unknown flags", call("cudaEventCreateWithFlags", Out("e"), 0x10), documented=INVALID),
    row("cudaEventCreateWithFlags, between processes and timed", call("cudaEventCreateWithFlags", Out("e"), 4), documented=INVALID),
    row("cudaEventCreateWithFlags, between processes", call("cudaEventCreateWithFlags", Out("e"), 6), documented=DONE),
    row("cudaEventDestroy of null", call("cudaEventDestroy", 0)),
    row("cudaEventQuery of one that was not recorded", EVENT, call("cudaEventQuery", Ref("e")), documented=DONE),
    row("cudaEventQuery of null", call("cudaEventQuery", 0)),
    row("cudaEventQuery of one that was recorded", EVENT, RECORDED, setup("cudaDeviceSynchronize"), call("cudaEventQuery", Ref("e")), documented=DONE),
    row("cudaEventSynchronize of one that was not recorded", EVENT, call("cudaEventSynchronize", Ref("e")), documented=DONE),
    row("cudaEventRecord of null", call("cudaEventRecord", 0, 0)),
    row("cudaEventRecord on the legacy stream", EVENT, call("cudaEventRecord", Ref("e"), 0), documented=DONE),
    row("cudaEventRecordWithFlags, external without a capture", EVENT, call("cudaEventRecordWithFlags", Ref("e"), 0, 1)),
    row("cudaEventRecordWithFlags, unknown flags", EVENT, call("cudaEventRecordWithFlags", Ref("e"), 0, 8), documented=INVALID),
    row("cudaEventElapsedTime of events that were not recorded", EVENT, SECOND, call("cudaEventElapsedTime", Out("ms"), Ref("e"), Ref("f")), documented=HANDLE),
    row("cudaEventElapsedTime to one that was not recorded", EVENT, SECOND, RECORDED, call("cudaEventElapsedTime", Out("ms"), Ref("e"), Ref("f")), documented=HANDLE),
    row("cudaEventElapsedTime of an event without times", EVENT, UNTIMED, RECORDED, setup("cudaEventRecord", Ref("u"), 0), call("cudaEventElapsedTime", Out("ms"), Ref("e"), Ref("u")), documented=HANDLE),
    row("cudaEventElapsedTime of an event to itself", EVENT, RECORDED, setup("cudaEventSynchronize", Ref("e")), call("cudaEventElapsedTime", Out("ms", "f32"), Ref("e"), Ref("e")), documented=DONE),
    row("cudaEventElapsedTime without a place", EVENT, RECORDED, call("cudaEventElapsedTime", 0, Ref("e"), Ref("e"))),
    row("cudaEventElapsedTime of null", EVENT, call("cudaEventElapsedTime", Out("ms"), Ref("e"), 0)),
    row("cudaIpcGetEventHandle of an event of this process alone", EVENT, call("cudaIpcGetEventHandle", Out("handle", None, 64), Ref("e"))),
    row("cudaIpcGetEventHandle of one between processes", setup("cudaEventCreateWithFlags", Out("i"), 6), call("cudaIpcGetEventHandle", Out("handle", None, 64), Ref("i")), documented=DONE),
    row("cudaIpcOpenMemHandle in the process that made the handle", setup("cudaMalloc", Out("p"), 4096), setup("cudaIpcGetMemHandle", Out("handle", None, 64), Ref("p")), call("cudaIpcCloseMemHandle", Ref("p"))),
    row("cudaStreamWaitEvent, then the event is destroyed", STREAM, EVENT, RECORDED, call("cudaStreamWaitEvent", Ref("s"), Ref("e"), 0), call("cudaEventDestroy", Ref("e")), call("cudaStreamSynchronize", Ref("s")), documented=DONE),
    row("cudaEventRecord on a stream of another device", setup("cudaEventCreate", Out("e")), setup("cudaSetDevice", 1), setup("cudaStreamCreate", Out("s")), call("cudaEventRecord", Ref("e"), Ref("s")), gpus=2, documented=HANDLE),
]
