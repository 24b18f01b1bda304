"""Loading PTX and finding what is in it, by the driver. `documented` is by the CUDA Driver API reference, "Module Management"."""

from calls import Bytes, Out, Ref, call, setup

from .driver import DONE, INVALID, bare, driven

NOT_FOUND = "CUDA_ERROR_NOT_FOUND"
HEAD = ".version 7.0\n.target sm_50\n.address_size 64\n"
#: A kernel for each way in which one can go wrong, and what launches are measured with.
TEXT = HEAD + """
.extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 name, .param .b64 size);
.global .align 4 .b32 counter;
.global .align 1 .b8 text[8] = {102, 97, 108, 115, 101, 0, 0, 0};
.visible .entry nothing() { ret; }
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
.visible .entry required() .reqntid 64, 1, 1 { ret; }
.visible .entry shares() { .shared .align 4 .b8 held[1024]; .reg .b32 a; mov.u32 a, held; st.shared.b32 [a], 1; ret; }
.visible .entry store(.param .u64 to) { .reg .b64 a; ld.param.u64 a, [to]; st.global.b32 [a], 1; ret; }
.visible .entry load(.param .u64 from) {
    .reg .b64 a; .reg .b32 x; ld.param.u64 a, [from]; ld.volatile.global.b32 x, [a]; st.global.b32 [a], x; ret; }
.visible .entry beyond_shared() {
    .shared .align 4 .b8 held[16]; .reg .b32 a; mov.u32 a, 0x1000000; st.volatile.shared.b32 [a], 1; ret; }
.visible .entry misaligned(.param .u64 to) {
    .reg .b64 a; ld.param.u64 a, [to]; add.u64 a, a, 2; st.volatile.global.b32 [a], 1; ret; }
.visible .entry asserts() {
    .reg .b64 a; mov.u64 a, text; cvta.global.u64 a, a;
    { .param .b64 message; .param .b64 file; .param .b32 line; .param .b64 name; .param .b64 size;
      st.param.b64 [message], a; st.param.b64 [file], a; st.param.b32 [line], 7; st.param.b64 [name], a; st.param.b64 [size], 1;
      call __assertfail, (message, file, line, name, size); }
    ret; }
.visible .entry traps() { trap; ret; }
.visible .entry stops() { brkpt; ret; }
"""
IMAGE = Bytes(TEXT.encode())
MODULE = setup("cuModuleLoadData", Out("module"), IMAGE)


def load(text):
    return call("cuModuleLoadData", Out("m"), Bytes(text.encode()))


ROWS = [
    driven("cuModuleLoadData of PTX", load(TEXT), documented=DONE),
    driven("cuModuleLoadData of null", call("cuModuleLoadData", Out("m"), 0), documented=INVALID),
    driven("cuModuleLoadData without a place", call("cuModuleLoadData", 0, IMAGE), documented=INVALID),
    driven("cuModuleLoadData of text that is not PTX", load("this is no PTX"), documented=("CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_INVALID_IMAGE")),
    driven("cuModuleLoadData of empty text", load("")),
    driven("cuModuleLoadData of PTX for a later device", load(HEAD.replace("sm_50", "sm_999")), documented=("CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_NO_BINARY_FOR_GPU")),
    driven("cuModuleLoadData of PTX of a later version", load(HEAD.replace("7.0", "99.0")), documented="CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    # Not asserted of ours, which cannot tell a mistake from an instruction of a later PTX: the launch fails, as a gap.
    driven("cuModuleLoadData of an unknown instruction", load(HEAD + ".visible .entry k() { .reg .b32 a; frobnicate.b32 a, a; ret; }")),
    driven("cuModuleLoadData of an undeclared register", load(HEAD + ".visible .entry k() { mov.b32 a, 1; ret; }"), documented="CUDA_ERROR_INVALID_PTX"),
    driven("cuModuleLoadData of two kernels of one name", load(HEAD + ".visible .entry k() { ret; }\n.visible .entry k() { ret; }"), documented="CUDA_ERROR_INVALID_PTX"),
    driven("cuModuleLoadData of a call to nowhere", load(HEAD + ".extern .func nowhere();\n.visible .entry k() { call nowhere, (); ret; }")),
    driven("cuModuleLoad of a file that is not there", call("cuModuleLoad", Out("m"), Bytes(b"/nonexistent/kernels.ptx")), documented="CUDA_ERROR_FILE_NOT_FOUND"),
    driven("cuModuleUnload of null", call("cuModuleUnload", 0)),
    driven("cuModuleGetFunction", MODULE, call("cuModuleGetFunction", Out("f"), Ref("module"), Bytes(b"nothing")), documented=DONE),
    driven("cuModuleGetFunction of an unknown name", MODULE, call("cuModuleGetFunction", Out("f"), Ref("module"), Bytes(b"other")), documented=NOT_FOUND),
    driven("cuModuleGetFunction of an empty name", MODULE, call("cuModuleGetFunction", Out("f"), Ref("module"), Bytes(b""))),
    driven("cuModuleGetFunction of null", MODULE, call("cuModuleGetFunction", Out("f"), Ref("module"), 0), documented=INVALID),
    driven("cuModuleGetGlobal", MODULE, call("cuModuleGetGlobal_v2", Out("address"), Out("size", "u64"), Ref("module"), Bytes(b"counter")), documented=DONE),
    driven("cuModuleGetGlobal of an unknown name", MODULE, call("cuModuleGetGlobal_v2", Out("address"), Out("size", "u64"), Ref("module"), Bytes(b"other")), documented=NOT_FOUND),
    driven("cuLibraryLoadData of null", call("cuLibraryLoadData", Out("library"), 0, 0, 0, 0, 0, 0, 0), documented=INVALID),
    driven("cuLibraryGetKernel of an unknown name", setup("cuLibraryLoadData", Out("library"), IMAGE, 0, 0, 0, 0, 0, 0), call("cuLibraryGetKernel", Out("kernel"), Ref("library"), Bytes(b"other")), documented=NOT_FOUND),
    driven("cuLinkAddData of text that is not PTX", setup("cuLinkCreate_v2", 0, 0, 0, Out("link")), call("cuLinkAddData_v2", Ref("link"), 1, Bytes(b"this is no PTX"), 15, Bytes(b"text"), 0, 0, 0)),
    bare("cuModuleGetLoadingMode before cuInit", call("cuModuleGetLoadingMode", Out("mode", "u32"))),
]
