"""Streams, host functions and what cannot be captured, by the runtime.

`documented` is by the CUDA Runtime API reference, "Stream Management", and the Programming Guide, "Prohibited and Unhandled
Operations".
"""

from calls import Callback, Out, Ref, call, row, setup

from .memory import DEVICE, DONE, INVALID

STREAM = setup("cudaStreamCreateWithFlags", Out("s"), 1)
BLOCKING = setup("cudaStreamCreate", Out("b"))
OTHER = setup("cudaStreamCreateWithFlags", Out("t"), 1)
EVENT = setup("cudaEventCreate", Out("e"))
GLOBAL, RELAXED = 0, 2
#: cudaStreamLegacy and cudaStreamPerThread
LEGACY, PER_THREAD = 1, 2
BEGUN = setup("cudaStreamBeginCapture", Ref("s"), GLOBAL)
END = call("cudaStreamEndCapture", Ref("s"), Out("graph"))
UNSUPPORTED = "cudaErrorStreamCaptureUnsupported"


def captured(name, *calls, begin=BEGUN, before=(), **rest):
    """Calls during a capture, and then its end."""
    return row(f"while a stream is captured: {name}", STREAM, *before, begin, *calls, END, **rest)


ROWS = [
    row("cudaStreamCreate without a place", call("cudaStreamCreate", 0), documented=INVALID),
    row("cudaStreamCreateWithFlags, unknown flags", call("cudaStreamCreateWithFlags", Out("s"), 6), documented=INVALID),
    row("cudaStreamCreateWithPriority beyond the range", call("cudaStreamCreateWithPriority", Out("s"), 1, -1000), call("cudaStreamGetPriority", Ref("s"), Out("priority", "i32")), documented=DONE),
    row("cudaStreamCreateWithPriority below the range", call("cudaStreamCreateWithPriority", Out("s"), 1, 1000), call("cudaStreamGetPriority", Ref("s"), Out("priority", "i32")), documented=DONE),
    row("cudaStreamGetFlags of a non-blocking stream", STREAM, call("cudaStreamGetFlags", Ref("s"), Out("flags", "u32")), documented=DONE),
    row("cudaStreamGetFlags of the legacy stream", call("cudaStreamGetFlags", 0, Out("flags", "u32")), documented=DONE),
    row("cudaStreamGetFlags without a place", STREAM, call("cudaStreamGetFlags", Ref("s"), 0), documented=INVALID),
    row("cudaStreamQuery of an idle stream", STREAM, call("cudaStreamQuery", Ref("s")), documented=DONE),
    row("cudaStreamQuery of the legacy stream", call("cudaStreamQuery", LEGACY), documented=DONE),
    row("cudaStreamSynchronize of the stream per thread", call("cudaStreamSynchronize", PER_THREAD), documented=DONE),
    row("cudaStreamDestroy of null", call("cudaStreamDestroy", 0)),
    row("cudaStreamDestroy of the legacy stream", call("cudaStreamDestroy", LEGACY)),
    row("cudaStreamDestroy of the stream per thread", call("cudaStreamDestroy", PER_THREAD)),
    row("cudaStreamWaitEvent on null", STREAM, call("cudaStreamWaitEvent", Ref("s"), 0, 0)),
    row("cudaStreamWaitEvent on an event that was not recorded", STREAM, EVENT, call("cudaStreamWaitEvent", Ref("s"), Ref("e"), 0), documented=DONE),
    row("cudaStreamWaitEvent with unknown flags", STREAM, EVENT, call("cudaStreamWaitEvent", Ref("s"), Ref("e"), 9), documented=INVALID),
    row("cudaStreamAddCallback of null", STREAM, call("cudaStreamAddCallback", Ref("s"), 0, 0, 0), documented=INVALID),
    row("cudaLaunchHostFunc", STREAM, call("cudaLaunchHostFunc", Ref("s"), Callback(), 0), call("cudaStreamSynchronize", Ref("s")), documented=DONE),
    row("cudaLaunchHostFunc of null", STREAM, call("cudaLaunchHostFunc", Ref("s"), 0, 0), documented=INVALID),
    row("cudaMalloc in a host function", STREAM, call("cudaLaunchHostFunc", Ref("s"), Callback(call("cudaMalloc", Out("p"), 512)), 0), call("cudaStreamSynchronize", Ref("s"))),
    row("the last error after a host function that failed", STREAM, call("cudaLaunchHostFunc", Ref("s"), Callback(call("cudaMalloc", Out("p"), 512)), 0), call("cudaStreamSynchronize", Ref("s")), call("cudaGetLastError"), documented=DONE),
    row("cudaStreamQuery in a host function", STREAM, call("cudaLaunchHostFunc", Ref("s"), Callback(call("cudaStreamQuery", 0)), 0), call("cudaStreamSynchronize", Ref("s"))),
    row("cudaStreamAttachMemAsync of device memory", STREAM, DEVICE, call("cudaStreamAttachMemAsync", Ref("s"), Ref("p"), 0, 1)),
    row("cudaStreamBeginCapture of the legacy stream", call("cudaStreamBeginCapture", 0, GLOBAL), documented=UNSUPPORTED),
    row("cudaStreamBeginCapture of the stream per thread", call("cudaStreamBeginCapture", PER_THREAD, GLOBAL), call("cudaStreamEndCapture", PER_THREAD, Out("graph")), documented=DONE),
    row("cudaStreamBeginCapture in mode 7", STREAM, call("cudaStreamBeginCapture", Ref("s"), 7), documented=INVALID),
    row("cudaStreamBeginCapture twice", STREAM, call("cudaStreamBeginCapture", Ref("s"), GLOBAL), call("cudaStreamBeginCapture", Ref("s"), GLOBAL)),
    row("cudaStreamEndCapture without a capture", STREAM, END),
    row("cudaStreamIsCapturing of the legacy stream", call("cudaStreamIsCapturing", 0, Out("status", "i32")), documented=DONE),
    row("cudaStreamIsCapturing of the legacy stream while a blocking stream is captured", BLOCKING, setup("cudaStreamBeginCapture", Ref("b"), GLOBAL), call("cudaStreamIsCapturing", 0, Out("status", "i32")), documented="cudaErrorStreamCaptureImplicit"),
    row("cudaStreamGetCaptureInfo of an idle stream", STREAM, call("cudaStreamGetCaptureInfo_v2", Ref("s"), Out("status", "i32"), 0, 0, 0, 0), documented=DONE),
    captured("nothing", documented=DONE),
    captured("cudaStreamSynchronize", call("cudaStreamSynchronize", Ref("s")), documented="cudaErrorStreamCaptureInvalidated"),
    captured("cudaStreamQuery", call("cudaStreamQuery", Ref("s")), documented="cudaErrorStreamCaptureInvalidated"),
    captured("cudaDeviceSynchronize", call("cudaDeviceSynchronize"), documented="cudaErrorStreamCaptureInvalidated"),
    captured("cudaMalloc", call("cudaMalloc", Out("p"), 512), documented="cudaErrorStreamCaptureInvalidated"),
    captured("cudaMalloc, relaxed", call("cudaMalloc", Out("p"), 512), begin=setup("cudaStreamBeginCapture", Ref("s"), RELAXED), documented=DONE),
    captured("cudaFree", call("cudaFree", Ref("p")), before=(DEVICE,)),
    captured("cudaMemset of the legacy stream", call("cudaMemset", Ref("p"), 0, 16), before=(DEVICE,)),
    captured("cudaMemsetAsync of the legacy stream", call("cudaMemsetAsync", Ref("p"), 0, 16, 0), before=(DEVICE,)),
    captured("cudaMemsetAsync", call("cudaMemsetAsync", Ref("p"), 0, 16, Ref("s")), before=(DEVICE,), documented=DONE),
    captured("cudaEventQuery", call("cudaEventRecord", Ref("e"), Ref("s")), call("cudaEventQuery", Ref("e")), before=(EVENT,)),
    captured("cudaEventSynchronize", call("cudaEventRecord", Ref("e"), Ref("s")), call("cudaEventSynchronize", Ref("e")), before=(EVENT,)),
    captured("cudaEventElapsedTime", call("cudaEventRecord", Ref("e"), Ref("s")), call("cudaEventElapsedTime", Out("ms"), Ref("e"), Ref("e")), before=(EVENT,)),
    captured("cudaStreamDestroy", call("cudaStreamDestroy", Ref("t")), before=(OTHER,)),
    captured("a stream that does not come back", call("cudaEventRecord", Ref("e"), Ref("s")), call("cudaStreamWaitEvent", Ref("t"), Ref("e"), 0), call("cudaMemsetAsync", Ref("p"), 0, 16, Ref("t")), before=(EVENT, OTHER, DEVICE), documented="cudaErrorStreamCaptureUnjoined"),
    row("cudaStreamEndCapture of the other stream", STREAM, OTHER, EVENT, BEGUN, setup("cudaEventRecord", Ref("e"), Ref("s")), setup("cudaStreamWaitEvent", Ref("t"), Ref("e"), 0), call("cudaStreamEndCapture", Ref("t"), Out("graph")), documented="cudaErrorStreamCaptureUnmatched"),
    row("a captured stream waits for work from before its capture", STREAM, OTHER, EVENT, setup("cudaEventRecord", Ref("e"), Ref("t")), BEGUN, call("cudaStreamWaitEvent", Ref("s"), Ref("e"), 0), documented="cudaErrorStreamCaptureIsolation"),
    row("cudaThreadExchangeStreamCaptureMode without a place", call("cudaThreadExchangeStreamCaptureMode", 0), documented=INVALID),
]
