//! `torch.cuda._sleep` (`aten/src/ATen/cuda/Sleep.cu`): a kernel that takes a number of clock cycles.

use crate::call_site::cpp_name::Signature;

/// The PTX of such a kernel.
pub(super) fn write(symbol: &str, signature: &Signature) -> Option<String> {
    let is_it = symbol.contains("Sleep_cu") && signature.name == "spin_kernel" && signature.parameters == "long";
    is_it.then(|| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {symbol}(.param .u64 cycles)\n{{{BODY}}}\n"
        )
    })
}

const BODY: &str = "
    .reg .pred %q;
    .reg .u64 %cycles, %start, %now;
    ld.param.u64 %cycles, [cycles];
    mov.u64 %start, %clock64;
AGAIN:
    nanosleep.u32 20000;
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %start;
    setp.lt.s64 %q, %now, %cycles;
    @%q bra AGAIN;
    ret;
";
