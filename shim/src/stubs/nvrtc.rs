//! libnvrtc: programs are real objects with a log; compiling one is a stub, as without a GPU there is no target.

use std::ffi::{CStr, c_char, c_int};

use super::objects::{Answer, Code, Objects, Refusals, kind};
use super::release;
use crate::boundary::args::{Out, Text};
use crate::boundary::table::exports;

/// NVRTC_ERROR_INVALID_PROGRAM and NVRTC_ERROR_INVALID_INPUT.
const REFUSALS: Refusals = Refusals { handle: 4, value: 3 };
static PROGRAMS: Objects<()> = Objects::new(kind::NVRTC, REFUSALS);
/// The log of every program.
const LOG: &CStr = c"fakegpu: this GPU is simulated, and code cannot be compiled for it";

exports! {
    library Nvrtc;
    bare {
        fn nvrtcVersion(major: Out<c_int>, minor: Out<c_int>) = version;
        fn nvrtcCreateProgram(program: Out<usize>, source: Text, name: Text, headers: c_int, contents: *const Text, names: *const Text) = create;
        fn nvrtcDestroyProgram(program: Out<usize>) = destroy;
        fn nvrtcGetProgramLogSize(program: usize, size: Out<usize>) = log_size;
        fn nvrtcGetProgramLog(program: usize, buffer: *mut c_char) = log;
        fn nvrtcGetNumSupportedArchs(count: Out<c_int>) = |count| count.set(0).map_err(REFUSALS.null());
    }
    raw {
        fn nvrtcGetErrorString(status: c_int) -> *const c_char = |status| text(status).as_ptr();
    }
    stub {
        __nvrtcCPEx __nvrtcNvvmHandle nvrtcAddNameExpression nvrtcCompileProgram nvrtcGetBundledHeadersInfo
        nvrtcGetCUBIN nvrtcGetCUBINSize nvrtcGetLTOIR nvrtcGetLTOIRSize nvrtcGetLoweredName nvrtcGetOptiXIR
        nvrtcGetOptiXIRSize nvrtcGetPCHCreateStatus nvrtcGetPCHHeapSize nvrtcGetPCHHeapSizeRequired nvrtcGetPTX
        nvrtcGetPTXSize nvrtcGetSupportedArchs nvrtcGetTileIR nvrtcGetTileIRSize nvrtcInstallBundledHeaders
        nvrtcRemoveBundledHeaders nvrtcSetFlowCallback nvrtcSetPCHHeapSize
    }
}

fn version(major: Out<c_int>, minor: Out<c_int>) -> Answer {
    let toolkit = release::current().toolkit;
    major.set(toolkit.0).and_then(|()| minor.set(toolkit.1)).map_err(REFUSALS.null())
}

fn create(
    program: Out<usize>,
    source: Text,
    _name: Text,
    headers: c_int,
    contents: *const Text,
    names: *const Text,
) -> Answer {
    source.get().map_err(REFUSALS.null())?;
    if headers < 0 || headers > 0 && (contents.is_null() || names.is_null()) {
        return REFUSALS.value();
    }
    PROGRAMS.create(program, ())
}

fn destroy(program: Out<usize>) -> Answer {
    let handle = program.get().map_err(|_| Code(REFUSALS.handle))?;
    PROGRAMS.destroy(handle)?;
    program.set_if_wanted(0);
    Ok(())
}

fn log_size(program: usize, size: Out<usize>) -> Answer {
    PROGRAMS.get(program)?;
    size.set(LOG.to_bytes_with_nul().len()).map_err(REFUSALS.null())
}

/// # Safety
/// `log` has room for [`log_size`] bytes.
unsafe fn log(program: usize, log: *mut c_char) -> Answer {
    PROGRAMS.get(program)?;
    if log.is_null() {
        return REFUSALS.value();
    }
    let bytes = LOG.to_bytes_with_nul();
    // SAFETY: the caller vouches for the room that the log size call named.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), log.cast(), bytes.len()) };
    Ok(())
}

fn text(status: c_int) -> &'static CStr {
    match status {
        0 => c"NVRTC_SUCCESS",
        1 => c"NVRTC_ERROR_OUT_OF_MEMORY",
        2 => c"NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
        3 => c"NVRTC_ERROR_INVALID_INPUT",
        4 => c"NVRTC_ERROR_INVALID_PROGRAM",
        5 => c"NVRTC_ERROR_INVALID_OPTION",
        6 => c"NVRTC_ERROR_COMPILATION",
        7 => c"NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
        8 => c"NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
        9 => c"NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        10 => c"NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
        11 => c"NVRTC_ERROR_INTERNAL_ERROR",
        12 => c"NVRTC_ERROR_TIME_FILE_WRITE_FAILED",
        _ => c"NVRTC_ERROR unknown",
    }
}
