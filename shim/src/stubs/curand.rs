//! libcurand: its version is real, its generators are stubs.

use std::ffi::c_int;

use super::objects::{Answer, Refusals};
use super::release;
use crate::boundary::args::Out;
use crate::boundary::table::exports;

/// CURAND_STATUS_NOT_INITIALIZED and CURAND_STATUS_OUT_OF_RANGE.
const REFUSALS: Refusals = Refusals { handle: 101, value: 104 };

exports! {
    library Curand;
    bare {
        fn curandGetVersion(version: Out<c_int>) = |version| version.set(release::current().curand.thousands()).map_err(REFUSALS.null());
        fn curandGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    stub {
        curandCreateGenerator curandCreateGeneratorHost curandCreatePoissonDistribution curandDestroyDistribution
        curandDestroyGenerator curandGenerate curandGenerateLogNormal curandGenerateLogNormalDouble
        curandGenerateLongLong curandGenerateNormal curandGenerateNormalDouble curandGeneratePoisson
        curandGeneratePoissonMethod curandGenerateSeeds curandGenerateUniform curandGenerateUniformDouble
        curandGetDirectionVectors32 curandGetDirectionVectors64 curandGetScrambleConstants32
        curandGetScrambleConstants64 curandSetGeneratorOffset curandSetGeneratorOrdering
        curandSetPseudoRandomGeneratorSeed curandSetQuasiRandomGeneratorDimensions curandSetStream
    }
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().curand.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}
