//! What a trace of PyTorch's profiler says about the times in it.

use std::ffi::c_void;

use super::cxx::CxxString;
use super::symbols::Libraries;

/// `torch::autograd::profiler::addMetadataJson(const std::string&, const std::string&)`
const ADD: &std::ffi::CStr =
    c"_ZN5torch8autograd8profiler15addMetadataJsonERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES9_";

/// Adds a field with a text to the trace being recorded, if PyTorch records one.
pub(crate) fn annotate(field: &str, text: &str) {
    let Some(function) = Libraries::find().and_then(|libraries| libraries.torch_cpu.symbol(ADD)) else { return };
    // SAFETY: the mangled name gives the function's type.
    let add: unsafe extern "C-unwind" fn(*const CxxString, *const CxxString) =
        unsafe { std::mem::transmute::<*mut c_void, _>(function) };
    CxxString::with(field, |field| {
        // SAFETY: two strings that live for the call.
        CxxString::with(&format!("\"{text}\""), |text| unsafe { add(field, text) });
    });
}
