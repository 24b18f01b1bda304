//! libcufft: transforms of one to three dimensions, of 32- and 64-bit numbers, in stream order. What is left are stubs: transforms on
//! several GPUs, of 16-bit numbers, callbacks, and what the device API asks. The table has every name in CUDA 13.5's library.

mod plan;
mod transform;

use std::ffi::{c_int, c_void};

use abi::argument::Out;
use abi::library::Library;

use self::plan::{Asked, kind, kind_of_types, numbers, with};
use self::transform::{Kind, Precision};
use super::cublas::element::Element;
use super::cublas::job::Job;
use super::cublas::operand::Shape;
use super::objects::{Answer, Code, Refusals};
use super::release;
use crate::boundary::table::exports;

/// CUFFT_INVALID_PLAN and CUFFT_INVALID_VALUE.
const REFUSALS: Refusals = Refusals { handle: 1, value: 4 };
/// CUFFT_INVALID_SIZE
const INVALID_SIZE: Code = Code(8);
/// CUFFT_EXEC_FAILED
const EXEC_FAILED: Code = Code(6);

exports! {
    library Cufft;
    real {
        fn cufftCreate(plan: Out<c_int>) = plan::create;
        fn cufftDestroy(plan: c_int) = plan::destroy;
        fn cufftSetStream(plan: c_int, stream: usize) = |plan, stream| with(plan, |plan| plan.stream = stream);
        fn cufftSetAutoAllocation(plan: c_int, automatic: c_int) = |plan, automatic| with(plan, |plan| plan.auto_allocation = automatic != 0);
        fn cufftSetWorkArea(plan: c_int, area: *mut c_void) = |plan, area| with(plan, |plan| plan.work_area = area as usize);
        fn cufftGetSize(plan: c_int, work: Out<usize>) = size;
        fn cufftPlan1d(plan: Out<c_int>, x: c_int, code: c_int, batches: c_int) = |plan, x, code, batches| usual(&[x], code, batches, |asked| plan::create_made(plan, asked));
        fn cufftPlan2d(plan: Out<c_int>, x: c_int, y: c_int, code: c_int) = |plan, x, y, code| usual(&[x, y], code, 1, |asked| plan::create_made(plan, asked));
        fn cufftPlan3d(plan: Out<c_int>, x: c_int, y: c_int, z: c_int, code: c_int) = |plan, x, y, z, code| usual(&[x, y, z], code, 1, |asked| plan::create_made(plan, asked));
        fn cufftPlanMany(plan: Out<c_int>, rank: c_int, sizes: *const c_int, read: *const c_int, read_stride: c_int, read_distance: c_int, written: *const c_int, written_stride: c_int, written_distance: c_int, code: c_int, batches: c_int) = plan_many;
        fn cufftMakePlan1d(plan: c_int, x: c_int, code: c_int, batches: c_int, work: Out<usize>) = |plan, x, code, batches, work| usual(&[x], code, batches, |asked| plan::make(plan, asked, work));
        fn cufftMakePlan2d(plan: c_int, x: c_int, y: c_int, code: c_int, work: Out<usize>) = |plan, x, y, code, work| usual(&[x, y], code, 1, |asked| plan::make(plan, asked, work));
        fn cufftMakePlan3d(plan: c_int, x: c_int, y: c_int, z: c_int, code: c_int, work: Out<usize>) = |plan, x, y, z, code, work| usual(&[x, y, z], code, 1, |asked| plan::make(plan, asked, work));
        fn cufftMakePlanMany(plan: c_int, rank: c_int, sizes: *const c_int, read: *const c_int, read_stride: c_int, read_distance: c_int, written: *const c_int, written_stride: c_int, written_distance: c_int, code: c_int, batches: c_int, work: Out<usize>) = make_many;
        fn cufftMakePlanMany64(plan: c_int, rank: c_int, sizes: *const i64, read: *const i64, read_stride: i64, read_distance: i64, written: *const i64, written_stride: i64, written_distance: i64, code: c_int, batches: i64, work: Out<usize>) = make_many;
        fn cufftXtMakePlanMany(plan: c_int, rank: c_int, sizes: *const i64, read: *const i64, read_stride: i64, read_distance: i64, read_type: c_int, written: *const i64, written_stride: i64, written_distance: i64, written_type: c_int, batches: i64, work: Out<usize>, execution: c_int) = make_of_types;
        fn cufftEstimate1d(x: c_int, code: c_int, batches: c_int, work: Out<usize>) = |x, code, batches, work| usual(&[x], code, batches, |asked| plan::estimate(asked, work));
        fn cufftEstimate2d(x: c_int, y: c_int, code: c_int, work: Out<usize>) = |x, y, code, work| usual(&[x, y], code, 1, |asked| plan::estimate(asked, work));
        fn cufftEstimate3d(x: c_int, y: c_int, z: c_int, code: c_int, work: Out<usize>) = |x, y, z, code, work| usual(&[x, y, z], code, 1, |asked| plan::estimate(asked, work));
        fn cufftExecC2C(plan: c_int, from: usize, to: usize, direction: c_int) = |plan, from, to, direction| execute(plan, from, to, (Kind::Complex, false), direction);
        fn cufftExecR2C(plan: c_int, from: usize, to: usize) = |plan, from, to| execute(plan, from, to, (Kind::RealToComplex, false), FORWARD);
        fn cufftExecC2R(plan: c_int, from: usize, to: usize) = |plan, from, to| execute(plan, from, to, (Kind::ComplexToReal, false), INVERSE);
        fn cufftExecZ2Z(plan: c_int, from: usize, to: usize, direction: c_int) = |plan, from, to, direction| execute(plan, from, to, (Kind::Complex, true), direction);
        fn cufftExecD2Z(plan: c_int, from: usize, to: usize) = |plan, from, to| execute(plan, from, to, (Kind::RealToComplex, true), FORWARD);
        fn cufftExecZ2D(plan: c_int, from: usize, to: usize) = |plan, from, to| execute(plan, from, to, (Kind::ComplexToReal, true), INVERSE);
        fn cufftXtExec(plan: c_int, from: usize, to: usize, direction: c_int) = execute_any;
    }
    bare {
        fn cufftGetVersion(version: Out<c_int>) = |version| version.set(release::current().cufft.thousands()).map_err(REFUSALS.null());
        fn cufftGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    stub {
        cufftDebug cufftDescriptionCreate cufftDescriptionDestroy cufftDescriptionGetTraitInt64
        cufftDescriptionSetTraitInt64 cufftDeviceCreate cufftDeviceDestroy cufftDeviceGetDatabaseStr
        cufftDeviceGetDatabaseStrSize cufftDeviceGetDeviceFunctionTraitInt64 cufftDeviceGetDeviceFunctions
        cufftDeviceGetLTOIRSizes cufftDeviceGetLTOIRs cufftDeviceGetNumDeviceFunctions cufftDeviceGetNumLTOIRs
        cufftDeviceGetSemanticVersion cufftDeviceGetVersion cufftDeviceIsSupported cufftEstimateMany
        cufftGetPlanPropertyInt64 cufftGetSize1d cufftGetSize2d cufftGetSize3d cufftGetSizeMany cufftGetSizeMany64
        cufftResetPlanProperty cufftSetPlanPropertyInt64 cufftXtClearCallback cufftXtExecDescriptor
        cufftXtExecDescriptorC2C cufftXtExecDescriptorC2R cufftXtExecDescriptorD2Z cufftXtExecDescriptorR2C
        cufftXtExecDescriptorZ2D cufftXtExecDescriptorZ2Z cufftXtFree cufftXtGetSizeMany cufftXtMakePlanGuru64
        cufftXtMalloc cufftXtMemcpy cufftXtQueryPlan cufftXtSetCallback cufftXtSetCallbackSharedSize cufftXtSetGPUs
        cufftXtSetJITCallback cufftXtSetWorkArea cufftXtSetWorkAreaPolicy
    }
}

/// CUFFT_FORWARD and CUFFT_INVERSE
const FORWARD: c_int = -1;
const INVERSE: c_int = 1;

/// Describes a plan with the usual layout.
fn usual(sizes: &[c_int], code: c_int, batches: c_int, made: impl FnOnce(Asked<'_>) -> Answer) -> Answer {
    let sizes: Vec<i64> = sizes.iter().copied().map(i64::from).collect();
    made(Asked { sizes: &sizes, kind: kind(code)?, layouts: None, batches: i64::from(batches) })
}

/// Where numbers are, as C passes it: embedding, stride, distance.
type Placed<T> = (*const T, T, T);

/// Describes a plan with layouts, which do not count if an embedding is null.
fn many<T: Copy + Into<i64>>(
    rank: c_int,
    sizes: *const T,
    read: Placed<T>,
    written: Placed<T>,
    kind: Answer<(Kind, bool)>,
    batches: T,
    made: impl FnOnce(Asked<'_>) -> Answer,
) -> Answer {
    let Some(sizes) = numbers(sizes, rank) else { return REFUSALS.value() };
    let embeddings = numbers(read.0, rank).zip(numbers(written.0, rank));
    let layouts = embeddings.as_ref().map(|(first, second)| {
        [(&first[..], read.1.into(), read.2.into()), (&second[..], written.1.into(), written.2.into())]
    });
    made(Asked { sizes: &sizes, kind: kind?, layouts, batches: batches.into() })
}

#[expect(clippy::too_many_arguments, reason = "those of cuFFT")]
fn plan_many(
    plan: Out<c_int>,
    rank: c_int,
    sizes: *const c_int,
    read: *const c_int,
    read_stride: c_int,
    read_distance: c_int,
    written: *const c_int,
    written_stride: c_int,
    written_distance: c_int,
    code: c_int,
    batches: c_int,
) -> Answer {
    let (read, written) = ((read, read_stride, read_distance), (written, written_stride, written_distance));
    many(rank, sizes, read, written, kind(code), batches, |asked| plan::create_made(plan, asked))
}

#[expect(clippy::too_many_arguments, reason = "those of cuFFT")]
fn make_many<T: Copy + Into<i64>>(
    plan: c_int,
    rank: c_int,
    sizes: *const T,
    read: *const T,
    read_stride: T,
    read_distance: T,
    written: *const T,
    written_stride: T,
    written_distance: T,
    code: c_int,
    batches: T,
    work: Out<usize>,
) -> Answer {
    let (read, written) = ((read, read_stride, read_distance), (written, written_stride, written_distance));
    many(rank, sizes, read, written, kind(code), batches, |asked| plan::make(plan, asked, work))
}

/// The precision of the sums follows from the numbers.
#[expect(clippy::too_many_arguments, reason = "those of cuFFT")]
fn make_of_types(
    plan: c_int,
    rank: c_int,
    sizes: *const i64,
    read: *const i64,
    read_stride: i64,
    read_distance: i64,
    read_type: c_int,
    written: *const i64,
    written_stride: i64,
    written_distance: i64,
    written_type: c_int,
    batches: i64,
    work: Out<usize>,
    _execution: c_int,
) -> Answer {
    let (read, written) = ((read, read_stride, read_distance), (written, written_stride, written_distance));
    let kind = kind_of_types(read_type, written_type);
    many(rank, sizes, read, written, kind, batches, |asked| plan::make(plan, asked, work))
}

fn size(plan: c_int, work: Out<usize>) -> Answer {
    let bytes = with(plan, |plan| plan.made.as_deref().map_or(0, plan::work_bytes))?;
    work.set(bytes).map_err(REFUSALS.null())
}

/// `cufftXtExec`, for every kind of plan; the direction counts for complex numbers only.
fn execute_any(plan: c_int, from: usize, to: usize, direction: c_int) -> Answer {
    let (_, made) = plan::made(plan)?;
    let is_double = matches!(made.precision, Precision::Double(_));
    let direction = match made.kind {
        Kind::Complex => direction,
        Kind::RealToComplex => FORWARD,
        Kind::ComplexToReal => INVERSE,
    };
    execute(plan, from, to, (made.kind, is_double), direction)
}

fn execute(plan: c_int, from: usize, to: usize, (kind, is_double): (Kind, bool), direction: c_int) -> Answer {
    let (stream, made) = plan::made(plan)?;
    let is_of_plan = made.kind == kind && matches!(made.precision, Precision::Double(_)) == is_double;
    if !is_of_plan || !matches!(direction, FORWARD | INVERSE) || from == 0 || to == 0 {
        return REFUSALS.value();
    }
    let (real, complex) = if is_double { (Element::F64, Element::C64) } else { (Element::F32, Element::C32) };
    let elements = match kind {
        Kind::Complex => [complex, complex],
        Kind::RealToComplex => [real, complex],
        Kind::ComplexToReal => [complex, real],
    };
    let mut job = Job::new(Library::Cufft, stream, false);
    let ends = [from, to].into_iter().zip(elements).zip(made.placed(from == to)).zip(made.sides());
    for (is_written, (((address, element), layout), side)) in [false, true].into_iter().zip(ends) {
        let count: usize = side.iter().product::<usize>() * made.batches;
        let n = layout.extent(made.batches, &side);
        // What lies between the numbers of an input need not be written: with gaps, it is not looked at.
        let is_read = !is_written && n == count;
        job.operand_at(address, element, Shape::Vector { n, step: 1 }, is_read, is_written);
    }
    // SAFETY: the job has checked that the memory is there, up to the last number of each layout.
    job.run_computed(move |_, _| unsafe { made.run(from, to, direction == INVERSE) }).map_err(|_| EXEC_FAILED)
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cufft.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}
