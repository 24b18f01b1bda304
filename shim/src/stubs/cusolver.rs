//! libcusolver: handles, parameter objects and versions are real. Factorisations and their workspace sizes are stubs.

use std::ffi::c_int;

use super::objects::{Answer, Code, Objects, Refusals, Stream, kind};
use super::release;
use crate::boundary::args::Out;
use crate::boundary::table::exports;
use crate::device;

/// CUSOLVER_STATUS_NOT_INITIALIZED and CUSOLVER_STATUS_INVALID_VALUE.
const REFUSALS: Refusals = Refusals { handle: 1, value: 3 };
static HANDLES: Objects<Stream> = Objects::new(kind::CUSOLVER, REFUSALS);
/// Parameters of an algorithm. What is set in them only matters to calls that are stubs.
static PARAMETERS: Objects<()> = Objects::new(kind::CUSOLVER_OBJECT, REFUSALS);

exports! {
    library Cusolver;
    real {
        fn cusolverDnCreate(handle: Out<usize>) = create;
        fn cusolverDnDestroy(handle: usize) = |handle| HANDLES.destroy(handle);
        fn cusolverDnSetStream(handle: usize, stream: usize) = |handle, stream| HANDLES.get(handle).map(|handle| handle.set(stream));
        fn cusolverDnGetStream(handle: usize, stream: Out<usize>) = |handle, stream| stream.set(HANDLES.get(handle)?.get()).map_err(REFUSALS.null());
        fn cusolverDnCreateParams(parameters: Out<usize>) = |parameters| PARAMETERS.create(parameters, ());
        fn cusolverDnDestroyParams(parameters: usize) = |parameters| PARAMETERS.destroy(parameters);
        fn cusolverDnCreateGesvdjInfo(parameters: Out<usize>) = |parameters| PARAMETERS.create(parameters, ());
        fn cusolverDnDestroyGesvdjInfo(parameters: usize) = |parameters| PARAMETERS.destroy(parameters);
        fn cusolverDnCreateSyevjInfo(parameters: Out<usize>) = |parameters| PARAMETERS.create(parameters, ());
        fn cusolverDnDestroySyevjInfo(parameters: usize) = |parameters| PARAMETERS.destroy(parameters);
        fn cusolverDnXgesvdjSetMaxSweeps(parameters: usize, sweeps: c_int) = |parameters, _| PARAMETERS.get(parameters).map(drop);
        fn cusolverDnXgesvdjSetSortEig(parameters: usize, sort: c_int) = |parameters, _| PARAMETERS.get(parameters).map(drop);
        fn cusolverDnXgesvdjSetTolerance(parameters: usize, tolerance: f64) = |parameters, _| PARAMETERS.get(parameters).map(drop);
    }
    bare {
        fn cusolverGetVersion(version: Out<c_int>) = |version| version.set(release::current().cusolver.thousands()).map_err(REFUSALS.null());
        fn cusolverGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    stub {
        cusolverDnCgeqrf cusolverDnCgeqrf_bufferSize cusolverDnCgesvd cusolverDnCgesvd_bufferSize
        cusolverDnCgesvdaStridedBatched cusolverDnCgesvdaStridedBatched_bufferSize cusolverDnCgesvdj
        cusolverDnCgesvdjBatched cusolverDnCgesvdjBatched_bufferSize cusolverDnCgesvdj_bufferSize cusolverDnCgetrf
        cusolverDnCgetrf_bufferSize cusolverDnCgetrs cusolverDnCheevd cusolverDnCheevd_bufferSize cusolverDnCheevj
        cusolverDnCheevjBatched cusolverDnCheevjBatched_bufferSize cusolverDnCheevj_bufferSize cusolverDnCpotrf
        cusolverDnCpotrfBatched cusolverDnCpotrf_bufferSize cusolverDnCpotrs cusolverDnCpotrsBatched cusolverDnCsytrf
        cusolverDnCsytrf_bufferSize cusolverDnCungqr cusolverDnCungqr_bufferSize cusolverDnCunmqr
        cusolverDnCunmqr_bufferSize cusolverDnDgeqrf cusolverDnDgeqrf_bufferSize cusolverDnDgesvd
        cusolverDnDgesvd_bufferSize cusolverDnDgesvdaStridedBatched cusolverDnDgesvdaStridedBatched_bufferSize
        cusolverDnDgesvdj cusolverDnDgesvdjBatched cusolverDnDgesvdjBatched_bufferSize cusolverDnDgesvdj_bufferSize
        cusolverDnDgetrf cusolverDnDgetrf_bufferSize cusolverDnDgetrs cusolverDnDorgqr cusolverDnDorgqr_bufferSize
        cusolverDnDormqr cusolverDnDormqr_bufferSize cusolverDnDpotrf cusolverDnDpotrfBatched
        cusolverDnDpotrf_bufferSize cusolverDnDpotrs cusolverDnDpotrsBatched cusolverDnDsyevd
        cusolverDnDsyevd_bufferSize cusolverDnDsyevj cusolverDnDsyevjBatched cusolverDnDsyevjBatched_bufferSize
        cusolverDnDsyevj_bufferSize cusolverDnDsytrf cusolverDnDsytrf_bufferSize cusolverDnGetDeterministicMode
        cusolverDnSetDeterministicMode cusolverDnSgeqrf cusolverDnSgeqrf_bufferSize cusolverDnSgesvd
        cusolverDnSgesvd_bufferSize cusolverDnSgesvdaStridedBatched cusolverDnSgesvdaStridedBatched_bufferSize
        cusolverDnSgesvdj cusolverDnSgesvdjBatched cusolverDnSgesvdjBatched_bufferSize cusolverDnSgesvdj_bufferSize
        cusolverDnSgetrf cusolverDnSgetrf_bufferSize cusolverDnSgetrs cusolverDnSorgqr cusolverDnSorgqr_bufferSize
        cusolverDnSormqr cusolverDnSormqr_bufferSize cusolverDnSpotrf cusolverDnSpotrfBatched
        cusolverDnSpotrf_bufferSize cusolverDnSpotrs cusolverDnSpotrsBatched cusolverDnSsyevd
        cusolverDnSsyevd_bufferSize cusolverDnSsyevj cusolverDnSsyevjBatched cusolverDnSsyevjBatched_bufferSize
        cusolverDnSsyevj_bufferSize cusolverDnSsytrf cusolverDnSsytrf_bufferSize cusolverDnXgeev
        cusolverDnXgeev_bufferSize cusolverDnXgeqrf cusolverDnXgeqrf_bufferSize cusolverDnXpotrf
        cusolverDnXpotrf_bufferSize cusolverDnXpotrs cusolverDnXsyevBatched cusolverDnXsyevBatched_bufferSize
        cusolverDnXsyevd cusolverDnXsyevd_bufferSize cusolverDnXsytrs cusolverDnXsytrs_bufferSize cusolverDnZgeqrf
        cusolverDnZgeqrf_bufferSize cusolverDnZgesvd cusolverDnZgesvd_bufferSize cusolverDnZgesvdaStridedBatched
        cusolverDnZgesvdaStridedBatched_bufferSize cusolverDnZgesvdj cusolverDnZgesvdjBatched
        cusolverDnZgesvdjBatched_bufferSize cusolverDnZgesvdj_bufferSize cusolverDnZgetrf cusolverDnZgetrf_bufferSize
        cusolverDnZgetrs cusolverDnZheevd cusolverDnZheevd_bufferSize cusolverDnZheevj cusolverDnZheevjBatched
        cusolverDnZheevjBatched_bufferSize cusolverDnZheevj_bufferSize cusolverDnZpotrf cusolverDnZpotrfBatched
        cusolverDnZpotrf_bufferSize cusolverDnZpotrs cusolverDnZpotrsBatched cusolverDnZsytrf
        cusolverDnZsytrf_bufferSize cusolverDnZungqr cusolverDnZungqr_bufferSize cusolverDnZunmqr
        cusolverDnZunmqr_bufferSize
    }
}

fn create(handle: Out<usize>) -> Answer {
    device::current().map_err(|_| Code(REFUSALS.handle))?;
    HANDLES.create(handle, Stream::default())
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cusolver.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => REFUSALS.value(),
    }
}
