//! libnvrtc: the installed library compiles. Its output for a real architecture is returned as PTX, which runs here. Without
//! it, programs are real objects with a log, and compiling one is a gap.

use std::ffi::{CStr, c_char, c_int};

use abi::argument::{Out, Text};
use abi::library::Library;

use super::installed::Installed;
use super::objects::{Answer, Code, Objects, Refusals, kind};
use super::release;
use crate::boundary::table::exports;

/// NVRTC_ERROR_INVALID_PROGRAM and NVRTC_ERROR_INVALID_INPUT.
const REFUSALS: Refusals = Refusals { handle: 4, value: 3 };
static PROGRAMS: Objects<()> = Objects::new(kind::NVRTC, REFUSALS);
static INSTALLED: Installed = Installed::new(Library::Nvrtc);
/// The log of every program if there is no compiler.
const LOG: &CStr =
    c"fakegpu: NVRTC is not installed (the Python package nvidia-cuda-nvrtc has it), so nothing was compiled";

exports! {
    library Nvrtc;
    bare {
        fn nvrtcVersion(major: Out<c_int>, minor: Out<c_int>) = version;
        fn nvrtcCreateProgram(program: Out<usize>, source: Text, name: Text, headers: c_int, contents: *const Text, names: *const Text) = create;
        fn nvrtcDestroyProgram(program: Out<usize>) = destroy;
        fn nvrtcGetProgramLogSize(program: usize, size: Out<usize>) = log_size;
        fn nvrtcGetProgramLog(program: usize, buffer: *mut c_char) = log;
        fn nvrtcGetNumSupportedArchs(count: Out<c_int>) = architectures;
        fn nvrtcGetCUBINSize(program: usize, size: Out<usize>) = cubin_size;
        fn nvrtcGetCUBIN(program: usize, code: usize) = cubin;
        fn nvrtcAddNameExpression(program: usize, name: usize) = |program, name| INSTALLED.call("nvrtcAddNameExpression", &[program, name]);
        fn nvrtcCompileProgram(program: usize, count: usize, options: usize) = |program, count, options| INSTALLED.call("nvrtcCompileProgram", &[program, count, options]);
        fn nvrtcGetBundledHeadersInfo(info: usize, message: usize) = |info, message| INSTALLED.call("nvrtcGetBundledHeadersInfo", &[info, message]);
        fn nvrtcGetLTOIR(program: usize, code: usize) = |program, code| INSTALLED.call("nvrtcGetLTOIR", &[program, code]);
        fn nvrtcGetLTOIRSize(program: usize, size: usize) = |program, size| INSTALLED.call("nvrtcGetLTOIRSize", &[program, size]);
        fn nvrtcGetLoweredName(program: usize, name: usize, lowered: usize) = |program, name, lowered| INSTALLED.call("nvrtcGetLoweredName", &[program, name, lowered]);
        fn nvrtcGetOptiXIR(program: usize, code: usize) = |program, code| INSTALLED.call("nvrtcGetOptiXIR", &[program, code]);
        fn nvrtcGetOptiXIRSize(program: usize, size: usize) = |program, size| INSTALLED.call("nvrtcGetOptiXIRSize", &[program, size]);
        fn nvrtcGetPCHCreateStatus(program: usize) = |program| INSTALLED.call("nvrtcGetPCHCreateStatus", &[program]);
        fn nvrtcGetPCHHeapSize(size: usize) = |size| INSTALLED.call("nvrtcGetPCHHeapSize", &[size]);
        fn nvrtcGetPCHHeapSizeRequired(program: usize, size: usize) = |program, size| INSTALLED.call("nvrtcGetPCHHeapSizeRequired", &[program, size]);
        fn nvrtcGetPTX(program: usize, text: usize) = |program, text| INSTALLED.call("nvrtcGetPTX", &[program, text]);
        fn nvrtcGetPTXSize(program: usize, size: usize) = |program, size| INSTALLED.call("nvrtcGetPTXSize", &[program, size]);
        fn nvrtcGetSupportedArchs(architectures: usize) = |architectures| INSTALLED.call("nvrtcGetSupportedArchs", &[architectures]);
        fn nvrtcGetTileIR(program: usize, code: usize) = |program, code| INSTALLED.call("nvrtcGetTileIR", &[program, code]);
        fn nvrtcGetTileIRSize(program: usize, size: usize) = |program, size| INSTALLED.call("nvrtcGetTileIRSize", &[program, size]);
        fn nvrtcInstallBundledHeaders(directory: usize, message: usize, flags: usize) = |directory, message, flags| INSTALLED.call("nvrtcInstallBundledHeaders", &[directory, message, flags]);
        fn nvrtcRemoveBundledHeaders(directory: usize, message: usize) = |directory, message| INSTALLED.call("nvrtcRemoveBundledHeaders", &[directory, message]);
        fn nvrtcSetFlowCallback(program: usize, callback: usize, payload: usize) = |program, callback, payload| INSTALLED.call("nvrtcSetFlowCallback", &[program, callback, payload]);
        fn nvrtcSetPCHHeapSize(size: usize) = |size| INSTALLED.call("nvrtcSetPCHHeapSize", &[size]);
    }
    raw {
        fn nvrtcGetErrorString(status: c_int) -> *const c_char = |status| text(status).as_ptr();
    }
    stub {
        __nvrtcCPEx __nvrtcNvvmHandle
    }
}

fn version(major: Out<c_int>, minor: Out<c_int>) -> Answer {
    if let Some(answer) = INSTALLED.try_call("nvrtcVersion", &[major.0 as usize, minor.0 as usize]) {
        return answer;
    }
    let toolkit = release::current().toolkit;
    major.set(toolkit.0).and_then(|()| minor.set(toolkit.1)).map_err(REFUSALS.null())
}

fn create(
    program: Out<usize>,
    source: Text,
    name: Text,
    headers: c_int,
    contents: *const Text,
    names: *const Text,
) -> Answer {
    let arguments =
        [program.0 as usize, source.0 as usize, name.0 as usize, headers as usize, contents as usize, names as usize];
    if let Some(answer) = INSTALLED.try_call("nvrtcCreateProgram", &arguments) {
        return answer;
    }
    source.get().map_err(REFUSALS.null())?;
    if headers < 0 || headers > 0 && (contents.is_null() || names.is_null()) {
        return REFUSALS.value();
    }
    PROGRAMS.create(program, ())
}

fn destroy(program: Out<usize>) -> Answer {
    if let Some(answer) = INSTALLED.try_call("nvrtcDestroyProgram", &[program.0 as usize]) {
        return answer;
    }
    let handle = program.get().map_err(|_| Code(REFUSALS.handle))?;
    PROGRAMS.destroy(handle)?;
    program.set_if_wanted(0);
    Ok(())
}

fn log_size(program: usize, size: Out<usize>) -> Answer {
    if let Some(answer) = INSTALLED.try_call("nvrtcGetProgramLogSize", &[program, size.0 as usize]) {
        return answer;
    }
    PROGRAMS.get(program)?;
    size.set(LOG.to_bytes_with_nul().len()).map_err(REFUSALS.null())
}

/// # Safety
/// `log` has room for [`log_size`] bytes.
unsafe fn log(program: usize, log: *mut c_char) -> Answer {
    if let Some(answer) = INSTALLED.try_call("nvrtcGetProgramLog", &[program, log as usize]) {
        return answer;
    }
    PROGRAMS.get(program)?;
    if log.is_null() {
        return REFUSALS.value();
    }
    let bytes = LOG.to_bytes_with_nul();
    // SAFETY: the caller vouches for the room that the log size call named.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), log.cast(), bytes.len()) };
    Ok(())
}

fn architectures(count: Out<c_int>) -> Answer {
    INSTALLED.call("nvrtcGetNumSupportedArchs", &[count.0 as usize])
}

/// NVRTC has a cubin if it compiled for a real architecture, and PTX in any case.
fn cubin_size(program: usize, size: Out<usize>) -> Answer {
    INSTALLED.call("nvrtcGetCUBINSize", &[program, size.0 as usize])?;
    match size.get().map_err(REFUSALS.null())? {
        0 => Ok(()),
        _ => INSTALLED.call("nvrtcGetPTXSize", &[program, size.0 as usize]),
    }
}

fn cubin(program: usize, cubin: usize) -> Answer {
    let mut size = 0usize;
    INSTALLED.call("nvrtcGetCUBINSize", &[program, (&raw mut size) as usize])?;
    match size {
        0 => INSTALLED.call("nvrtcGetCUBIN", &[program, cubin]),
        _ => INSTALLED.call("nvrtcGetPTX", &[program, cubin]),
    }
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
        13 => c"NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED",
        14 => c"NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED",
        15 => c"NVRTC_ERROR_PCH_CREATE",
        16 => c"NVRTC_ERROR_CANCELLED",
        17 => c"NVRTC_ERROR_TIME_TRACE_FILE_WRITE_FAILED",
        _ => c"NVRTC_ERROR unknown",
    }
}
