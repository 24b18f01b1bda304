//! Samples of a launch's accesses: only what a kernel touched, the first of each site, nothing that is not global memory.

use ptx::{Footprint, Sample};

use crate::device::{Device, image};
use crate::forms::HEADER;

/// Every thread below `n` copies a word, adds to a counter, and uses shared and local memory and its parameters.
const BODY: &str = ".visible .entry k(.param .u64 to, .param .u64 from, .param .u64 counter, .param .u64 n)\n{
.reg .b64 %to, %from, %c, %n, %a, %i;\n.reg .b32 %r<8>;\n.reg .pred %p;\n.shared .align 4 .b32 tile[128];\n.local .align 4 .b32 own[1];
ld.param.u64 %to, [to];\nld.param.u64 %from, [from];\nld.param.u64 %c, [counter];\nld.param.u64 %n, [n];
mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\nmad.lo.u32 %r3, %r0, %r1, %r2;\ncvt.u64.u32 %i, %r3;
setp.ge.u64 %p, %i, %n;\n@%p bra done;
shl.b64 %i, %i, 2;\nadd.u64 %a, %from, %i;\nld.global.u32 %r4, [%a];
st.local.u32 [own], %r4;\nld.local.u32 %r4, [own];\nmov.u32 %r5, tile;\nmad.lo.u32 %r5, %r2, 4, %r5;\nst.shared.u32 [%r5], %r4;\nld.shared.u32 %r4, [%r5];
add.u64 %a, %to, %i;\nst.global.u32 [%a], %r4;\nred.global.add.u32 [%c], 1;\ndone:\nret;\n}\n";

fn run(device: &mut Device, params: [u64; 4]) -> Vec<Sample> {
    device.footprint = Some(Footprint::default());
    device.run(&image(&format!("{HEADER}{BODY}")), "k", 800, 128, &params).unwrap();
    device.footprint.take().unwrap().into_samples()
}

#[test]
fn samples_are_of_what_was_touched() {
    const N: usize = 100_001;
    let mut device = Device::new();
    let values: Vec<u32> = (0..N as u32).collect();
    // Neither begins where a page does.
    let (from, to, counter) = (device.put(&values), device.alloc(4 * N), device.put(&[0u32]));
    let samples = run(&mut device, [to, from, counter, N as u64]);
    assert_eq!(device.get::<u32>(to, N), values);
    assert_eq!(device.get::<u32>(counter, 1), [N as u32]);

    let of = |start: u64, bytes: usize| -> Vec<Sample> {
        samples.iter().filter(|sample| (start..start + bytes as u64).contains(&sample.address)).copied().collect()
    };
    let (reads, writes, counts) = (of(from, 4 * N), of(to, 4 * N), of(counter, 4));
    assert_eq!(reads.len() + writes.len() + counts.len(), samples.len(), "shared, local and parameters are none");
    for (found, start, writes) in [(&reads, from, false), (&writes, to, true)] {
        assert_eq!(found[0].address, start, "the first thread's");
        // 64 pages, and those of the four times larger pieces behind; with two threads of the host at most twice.
        assert!((64..200).contains(&found.len()), "{}", found.len());
        for sample in found {
            assert_eq!((sample.bytes, sample.writes, sample.is_atomic), (4, writes, false));
            assert_eq!((sample.address - start) % 4, 0);
        }
    }
    assert_eq!(counts, [Sample { address: counter, bytes: 4, writes: true, is_atomic: true }]);

    assert_eq!(run(&mut device, [to, from, counter, 0]), [], "no thread touches anything");
}
