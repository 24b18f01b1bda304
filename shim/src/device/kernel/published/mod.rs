//! Kernels that a library has as machine code only, and whose meaning is published: PTX of our own runs in their place. A kernel is
//! recognized by its whole signature, so that one that a later version changed stays a gap.

mod multimem;
mod sleep;
mod symmetric;

use std::collections::HashMap;
use std::sync::Arc;

use dataplane::lock::Mutex;

use super::program::Program;
use crate::call_site::cpp_name::{self, Signature};

/// The PTX of a kernel, if it is one of these: its entry has the name `symbol`.
type Write = fn(symbol: &str, signature: &Signature) -> Option<String>;

const LIBRARIES: [Write; 3] = [multimem::write, symmetric::write, sleep::write];

/// Programs by the symbol of their only kernel; `None` for a kernel that is none of these.
type Programs = HashMap<String, Option<Arc<Program>>>;

static PROGRAMS: Mutex<Option<Programs>> = Mutex::new(None);

/// The program that runs in place of the kernel `symbol`.
pub(super) fn program(symbol: &str) -> Option<Arc<Program>> {
    let mut programs = PROGRAMS.lock();
    let programs = programs.get_or_insert_default();
    if let Some(known) = programs.get(symbol) {
        return known.clone();
    }
    let written = ptx(symbol).and_then(|text| Program::new(&[text]).ok()).map(Arc::new);
    programs.insert(symbol.to_owned(), written.clone());
    written
}

fn ptx(symbol: &str) -> Option<String> {
    let signature = cpp_name::signature(symbol)?;
    LIBRARIES.iter().find_map(|write| write(symbol, &signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Symbols of libtorch_cuda of PyTorch 2.15.0.
    const OPS: &str = "_ZN64_GLOBAL__N__4bfe95cf_25_CUDASymmetricMemoryOps_cu_d32bfcb6_38916";

    #[test]
    fn every_kernel_that_is_recognized_compiles() {
        let mut symbols: Vec<String> =
            ["14barrier_kernelEPPjiiim", "17put_signal_kernelEPPjiiiim", "18wait_signal_kernelEPPjiiiim"]
                .map(|name| format!("_ZN4c10d16symmetric_memory{name}"))
                .into();
        symbols.push("_ZN4c10d16symmetric_memory23multimem_barrier_kernelEPjS1_iiim".to_owned());
        for alignment in ["Li4E", "Li8E", "Li16E"] {
            symbols.push(format!("{OPS}26multimem_all_gather_kernelI{alignment}EEvPcS1_mPPjmm"));
        }
        for (kind, inner) in [("f", "S2_"), ("N3c108BFloat16E", "S4_")] {
            for alignment in ["Li4E", "Li8E", "Li16E"] {
                symbols.push(format!("{OPS}26multimem_all_reduce_kernelI{kind}{alignment}EEvPT_mPPjmm"));
                // The first in PyTorch 2.9, the second in 2.15.
                symbols
                    .push(format!("{OPS}35multimem_one_shot_all_reduce_kernelI{kind}{alignment}EEvPT_{inner}mPPjmm"));
                symbols.push(format!("{OPS}31multimem_one_shot_reduce_kernelI{kind}{alignment}EEvPT_{inner}mPPjmml"));
                for size in ["Lin1E", "Li2E", "Li4E", "Li8E"] {
                    symbols.push(format!(
                        "{OPS}26one_shot_all_reduce_kernelI{kind}{alignment}{size}EEvPPT_{inner}{inner}mmPPjmm"
                    ));
                    symbols.push(format!(
                        "{OPS}34two_shot_all_reduce_kernel_inplaceI{kind}{alignment}{size}EEvPPT_mmPPjmm"
                    ));
                    for split in ["Lb0ELb0E", "Lb1ELb0E", "Lb1ELb1E"] {
                        symbols.push(format!(
                            "{OPS}26two_shot_all_reduce_kernelI{kind}{alignment}{size}{split}EEvPPT_{inner}mmPPjmmm"
                        ));
                    }
                }
            }
        }
        symbols.push("_ZN2at4cuda40_GLOBAL__N__b51f33dc_8_Sleep_cu_088d913f11spin_kernelEl".to_owned());
        for symbol in symbols {
            let program = program(&symbol).unwrap_or_else(|| panic!("{symbol} is not recognized"));
            program.kernel(&symbol).unwrap_or_else(|why| panic!("{symbol}: {why}"));
        }
    }

    #[test]
    fn a_kernel_with_other_parameters_stays_a_gap() {
        for symbol in [
            "_ZN4c10d16symmetric_memory14barrier_kernelEPPjiii",
            "_ZN4c10d5other14barrier_kernelEPPjiiim",
            "_ZN4mine16symmetric_memory14barrier_kernelEPPjiiim",
            "_ZN5other26one_shot_all_reduce_kernelIfLi4ELi2EEEvPPT_S2_S2_mmPPjmm",
            "barrier_kernel",
            "_ZN4c10d16symmetric_memory23multimem_barrier_kernelEPjS1_iii",
            "_ZN5other26multimem_all_gather_kernelILi4EEEvPcS1_mPPjmm",
        ] {
            assert!(ptx(symbol).is_none(), "{symbol}");
        }
    }
}
