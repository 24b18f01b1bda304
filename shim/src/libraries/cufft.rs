//! libcufft: plans as objects, and the version, are real. Planning a transform and running it are stubs.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use abi::argument::Out;
use dataplane::lock::Mutex;

use super::objects::{Answer, Code, Refusals};
use super::release;
use crate::boundary::table::exports;

/// CUFFT_INVALID_PLAN and CUFFT_INVALID_VALUE.
const REFUSALS: Refusals = Refusals { handle: 1, value: 4 };

/// A plan before it is made: its settings.
#[derive(Debug, Default)]
struct Plan {
    stream: usize,
    auto_allocation: bool,
    work_area: usize,
}

/// The plans. In C, a plan is an int, not a pointer: the smallest free one.
static PLANS: Mutex<BTreeMap<c_int, Plan>> = Mutex::new(BTreeMap::new());

exports! {
    library Cufft;
    real {
        fn cufftCreate(plan: Out<c_int>) = create;
        fn cufftDestroy(plan: c_int) = destroy;
        fn cufftSetStream(plan: c_int, stream: usize) = |plan, stream| with(plan, |plan| plan.stream = stream);
        fn cufftSetAutoAllocation(plan: c_int, automatic: c_int) = |plan, automatic| with(plan, |plan| plan.auto_allocation = automatic != 0);
        fn cufftSetWorkArea(plan: c_int, area: *mut c_void) = |plan, area| with(plan, |plan| plan.work_area = area as usize);
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
        cufftDeviceGetSemanticVersion cufftDeviceGetVersion cufftDeviceIsSupported cufftEstimate1d cufftEstimate2d
        cufftEstimate3d cufftEstimateMany cufftExecC2C cufftExecC2R cufftExecD2Z cufftExecR2C cufftExecZ2D cufftExecZ2Z
        cufftGetPlanPropertyInt64 cufftGetSize cufftGetSize1d cufftGetSize2d cufftGetSize3d cufftGetSizeMany
        cufftGetSizeMany64 cufftMakePlan1d cufftMakePlan2d cufftMakePlan3d cufftMakePlanMany cufftMakePlanMany64
        cufftPlan1d cufftPlan2d cufftPlan3d cufftPlanMany cufftResetPlanProperty cufftSetPlanPropertyInt64
        cufftXtClearCallback cufftXtExec cufftXtExecDescriptor cufftXtExecDescriptorC2C cufftXtExecDescriptorC2R
        cufftXtExecDescriptorD2Z cufftXtExecDescriptorR2C cufftXtExecDescriptorZ2D cufftXtExecDescriptorZ2Z cufftXtFree
        cufftXtGetSizeMany cufftXtMakePlanGuru64 cufftXtMakePlanMany cufftXtMalloc cufftXtMemcpy cufftXtQueryPlan
        cufftXtSetCallback cufftXtSetCallbackSharedSize cufftXtSetGPUs cufftXtSetJITCallback cufftXtSetWorkArea
        cufftXtSetWorkAreaPolicy
    }
}

fn create(out: Out<c_int>) -> Answer {
    let out = out.required().map_err(REFUSALS.null())?;
    let mut plans = PLANS.lock();
    let plan = (1..).find(|plan| !plans.contains_key(plan)).unwrap_or(c_int::MAX);
    plans.insert(plan, Plan { auto_allocation: true, ..Plan::default() });
    out.set(plan).map_err(REFUSALS.null())
}

fn destroy(plan: c_int) -> Answer {
    let mut plans = PLANS.lock();
    plans.remove(&plan).map(drop).ok_or(Code(REFUSALS.handle))
}

fn with(plan: c_int, change: impl FnOnce(&mut Plan)) -> Answer {
    let mut plans = PLANS.lock();
    plans.get_mut(&plan).map(change).ok_or(Code(REFUSALS.handle))
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cufft.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}
