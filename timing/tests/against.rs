//! Runs of nccl-tests with known faults: the model names the fault. Figures from public issues (benches/published/nccl.json).

use protocol::datatype::Operation;
use timing::against::{self, Measured, NORMAL, Verdict};
use timing::machine::preset;
use timing::{Launch, Settings};

fn rows(pairs: &[(u64, f64)]) -> Vec<Measured> {
    pairs.iter().map(|(bytes, us)| Measured { bytes: *bytes, us: *us }).collect()
}

fn names(verdict: &Verdict, what: &str) -> bool {
    verdict.explanations.iter().any(|change| change.what.starts_with(what))
}

fn two_h100() -> timing::machine::Machine {
    preset("dgx-h100").unwrap().taking(2, 8)
}

#[test]
fn a_healthy_run_is_normal() {
    let run = rows(&[(8, 24.7), (1 << 20, 71.5), (16 << 20, 183.8), (1 << 30, 4470.0), (8 << 30, 34365.0)]);
    let verdict =
        against::compare(&two_h100(), &Settings::default(), Operation::AllReduce, Launch::ProcessPerGpu, &run).unwrap();
    assert!(verdict.deviation < NORMAL, "{}", verdict.deviation);
    assert_eq!(verdict.explanations, []);
}

/// `h100x8-2n-bad-c`: its reporter found out that GPUDirect RDMA was off.
#[test]
fn missing_gpudirect_is_named() {
    let run = rows(&[(8, 29.7), (2048, 32.6), (8 << 20, 272.7), (128 << 20, 3352.6), (2 << 30, 45448.0)]);
    let verdict =
        against::compare(&two_h100(), &Settings::default(), Operation::AllReduce, Launch::ProcessPerGpu, &run).unwrap();
    assert!(verdict.deviation > 2.0, "{}", verdict.deviation);
    // One rail out of eight is as slow.
    assert!(names(&verdict, "no GPUDirect RDMA"), "{:?}", verdict.explanations);
    assert!(!names(&verdict, "PCIe instead"), "{:?}", verdict.explanations);
}

/// A sweep of GPU counts with `NCCL_NVLS_ENABLE=0`, against a model that expects NVLS: 41117 us for 8 GiB on 8 x H200.
#[test]
fn missing_nvls_is_named() {
    let run = rows(&[(8 << 30, 41117.0)]);
    let machine = preset("hgx-h200").unwrap();
    let verdict =
        against::compare(&machine, &Settings::default(), Operation::AllReduce, Launch::ProcessPerGpu, &run).unwrap();
    assert!(names(&verdict, "NVLS is off"), "{:?}", verdict.explanations);
}

#[test]
fn the_output_of_nccl_tests_is_read() {
    let text = "\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           8             2     float     sum      -1    68.52    0.00    0.00      0    24.70    0.00    0.00      0
[0]   1048576        262144     float     sum      -1    71.50   14.67   27.50      0    72.10   14.54   27.27    N/A
# Avg bus bandwidth    : 12.3";
    let expected = rows(&[(8, 24.7), (1 << 20, 71.5)]);
    // Without checks there is no count of errors; old versions have neither operator nor root for a gather.
    let unchecked = "1048576 262144 float sum -1 71.50 14.67 27.50 N/A 72.10 14.54 27.27 N/A\n\
                     8388608 65536 float 131.40 63.8 59.8 0e+00 130.20 64.4 60.4 0e+00";
    assert_eq!(against::read(unchecked).unwrap(), rows(&[(1 << 20, 71.5), (8 << 20, 130.2)]));
    assert_eq!(against::read(text).unwrap(), expected);
    assert!(against::read("nothing").is_err());
}
