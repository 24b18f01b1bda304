//! How many blocks of a kernel fit on one SM: the arithmetic of NVIDIA's occupancy calculator over a profile's limits
//! (compute capability 5.0 and later: registers per warp in steps of 256, in four partitions).

use protocol::profile::LimitProfile;

/// The resource needs of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) threads: u32,
    pub(crate) registers_per_thread: u32,
    /// Static and dynamic, bytes.
    pub(crate) shared_bytes: u32,
}

/// Blocks of `need` that are resident on one SM at once.
pub(crate) fn blocks_per_sm(limits: &LimitProfile, major: i32, need: Need) -> u32 {
    const PARTITIONS: u32 = 4;
    if need.threads == 0 || need.threads > 1024 {
        return 0;
    }
    let warps = need.threads.div_ceil(32);
    let by_threads = limits.max_threads_per_sm / 32 / warps;
    let by_registers = match need.registers_per_thread {
        0 => u32::MAX,
        registers => {
            let per_warp = (registers * 32).next_multiple_of(256);
            // A launch is checked as if all partitions got the same number of warps; they need not.
            if per_warp * warps.next_multiple_of(PARTITIONS) > limits.registers_per_block {
                0
            } else {
                limits.registers_per_sm / PARTITIONS / per_warp * PARTITIONS / warps
            }
        }
    };
    let (step, reserved) = if major >= 8 { (128, 1024) } else { (256, 0) };
    let by_shared = match (need.shared_bytes + reserved).next_multiple_of(step) {
        0 => u32::MAX,
        _ if need.shared_bytes > limits.shared_memory_per_block_optin => 0,
        bytes => limits.shared_memory_per_sm / bytes,
    };
    by_threads.min(by_registers).min(by_shared).min(limits.max_blocks_per_sm)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected numbers: NVIDIA's occupancy calculator for compute capability 8.0 (A100).
    #[test]
    fn an_a100_holds_what_the_calculator_says() {
        let limits = &protocol::profile::builtin("a100").unwrap().limits;
        let blocks = |threads, registers_per_thread, shared_bytes| {
            blocks_per_sm(limits, 8, Need { threads, registers_per_thread, shared_bytes })
        };
        assert_eq!(blocks(1024, 32, 0), 2);
        assert_eq!(blocks(256, 32, 0), 8);
        assert_eq!(blocks(32, 16, 0), 32, "blocks per SM");
        assert_eq!(blocks(256, 64, 0), 4, "registers");
        assert_eq!(blocks(256, 255, 0), 1);
        assert_eq!(blocks(672, 32, 0), 3, "21 warps: 64 of them fit, and no partition is left unused");
        assert_eq!(blocks(1024, 65, 0), 0, "more registers than a block may have");
        assert_eq!(blocks(128, 32, 48 * 1024), 3, "shared memory, with the 1 KiB that the system keeps per block");
        assert_eq!(blocks(128, 32, 163 * 1024), 1);
        assert_eq!(blocks(128, 32, 164 * 1024), 0);
        assert_eq!(blocks(1025, 32, 0), 0);
    }
}
