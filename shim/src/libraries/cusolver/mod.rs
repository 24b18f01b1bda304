//! libcusolver: handles, parameter objects and versions; factors, eigenvalues and singular values of dense matrices, in stream order.
//! What is left are stubs: sparse matrices, refactorization, several GPUs, refinement, and functions that no known program calls.

mod call;
mod eigen;
mod factor;
mod handle;
mod orthogonal;
mod singular;

use std::ffi::c_int;

use abi::argument::Out;
use abi::table::Export;

use self::handle::{HANDLES, REFUSALS};
use super::objects::{Answer, Code, Objects, Stream, kind};
use super::release;
use crate::boundary::table::exports;
use crate::device;

/// Parameters of an algorithm: results are sorted and converged whatever they say.
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
        fn cusolverDnXsyevjSetMaxSweeps(parameters: usize, sweeps: c_int) = |parameters, _| PARAMETERS.get(parameters).map(drop);
        fn cusolverDnXsyevjSetSortEig(parameters: usize, sort: c_int) = |parameters, _| PARAMETERS.get(parameters).map(drop);
        fn cusolverDnXsyevjSetTolerance(parameters: usize, tolerance: f64) = |parameters, _| PARAMETERS.get(parameters).map(drop);
    }
    bare {
        fn cusolverGetVersion(version: Out<c_int>) = |version| version.set(release::current().cusolver.thousands()).map_err(REFUSALS.null());
        fn cusolverGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    stub {
        cublasCbatchAccGemm cublasCbatchAccGemm_BufferSize cublasCbatchGemm cublasCbatchTrsm cublasDbatchAccGemm
        cublasDbatchAccGemm_BufferSize cublasDbatchGemm cublasDbatchTrsm cublasSbatchAccGemm
        cublasSbatchAccGemm_BufferSize cublasSbatchGemm cublasSbatchTrsm cublasZbatchAccGemm
        cublasZbatchAccGemm_BufferSize cublasZbatchGemm cublasZbatchTrsm cusolverDnCCgels cusolverDnCCgels_bufferSize
        cusolverDnCCgesv cusolverDnCCgesv_bufferSize cusolverDnCEgels cusolverDnCEgels_bufferSize cusolverDnCEgesv
        cusolverDnCEgesv_bufferSize cusolverDnCKgels cusolverDnCKgels_bufferSize cusolverDnCKgesv
        cusolverDnCKgesv_bufferSize cusolverDnCYgels cusolverDnCYgels_bufferSize cusolverDnCYgesv
        cusolverDnCYgesv_bufferSize cusolverDnCaxpyHost cusolverDnCeyeBatch cusolverDnCgebrd cusolverDnCgebrd_bufferSize
        cusolverDnCgelqfHost cusolverDnCgemmHost cusolverDnCgeqlfHost cusolverDnCgeqrfHost cusolverDnCheevdx
        cusolverDnCheevdx_bufferSize cusolverDnChegst cusolverDnChegst_bufferSize cusolverDnChegvd
        cusolverDnChegvd_bufferSize cusolverDnChegvdx cusolverDnChegvdx_bufferSize cusolverDnChegvj
        cusolverDnChegvj_bufferSize cusolverDnChetrf cusolverDnChetrf_bufferSize cusolverDnClacpyHost cusolverDnClange
        cusolverDnClangeHost cusolverDnClange_bufferSize cusolverDnClanheHost cusolverDnClantrHost cusolverDnClarfgHost
        cusolverDnClarnvHost cusolverDnClasetHost cusolverDnClaswp cusolverDnClauum cusolverDnClauumHost
        cusolverDnClauum_bufferSize cusolverDnCnrm2Host cusolverDnCpotrfHost cusolverDnCpotri cusolverDnCpotriHost
        cusolverDnCpotri_bufferSize cusolverDnCpotrsHost cusolverDnCsscalHost cusolverDnCsytrf
        cusolverDnCsytrf_bufferSize cusolverDnCsytri cusolverDnCsytriHost cusolverDnCsytri_bufferSize
        cusolverDnCsytrsHost cusolverDnCtrtriHost cusolverDnCungbr cusolverDnCungbrHost cusolverDnCungbr_bufferSize
        cusolverDnCunghrHost cusolverDnCunglqHost cusolverDnCungtr cusolverDnCungtrHost cusolverDnCungtr_bufferSize
        cusolverDnCunmqrHost cusolverDnCunmtr cusolverDnCunmtrHost cusolverDnCunmtr_bufferSize cusolverDnDBgels
        cusolverDnDBgels_bufferSize cusolverDnDBgesv cusolverDnDBgesv_bufferSize cusolverDnDDgels
        cusolverDnDDgels_bufferSize cusolverDnDDgesv cusolverDnDDgesv_bufferSize cusolverDnDHgels
        cusolverDnDHgels_bufferSize cusolverDnDHgesv cusolverDnDHgesv_bufferSize cusolverDnDSgels
        cusolverDnDSgels_bufferSize cusolverDnDSgesv cusolverDnDSgesv_bufferSize cusolverDnDXgels
        cusolverDnDXgels_bufferSize cusolverDnDXgesv cusolverDnDXgesv_bufferSize cusolverDnDaxpyHost cusolverDnDeyeBatch
        cusolverDnDgebrd cusolverDnDgebrd_bufferSize cusolverDnDgelqfHost cusolverDnDgemmHost cusolverDnDgeqlfHost
        cusolverDnDgeqrfHost cusolverDnDlacpyHost cusolverDnDlamchHost cusolverDnDlange cusolverDnDlangeHost
        cusolverDnDlange_bufferSize cusolverDnDlansyHost cusolverDnDlantrHost cusolverDnDlarfgHost cusolverDnDlarnvHost
        cusolverDnDlasetHost cusolverDnDlaswp cusolverDnDlauum cusolverDnDlauumHost cusolverDnDlauum_bufferSize
        cusolverDnDnrm2Host cusolverDnDorgbr cusolverDnDorgbrHost cusolverDnDorgbr_bufferSize cusolverDnDorghrHost
        cusolverDnDorglqHost cusolverDnDorgtr cusolverDnDorgtrHost cusolverDnDorgtr_bufferSize cusolverDnDormqrHost
        cusolverDnDormtr cusolverDnDormtrHost cusolverDnDormtr_bufferSize cusolverDnDpotrfHost cusolverDnDpotri
        cusolverDnDpotriHost cusolverDnDpotri_bufferSize cusolverDnDpotrsHost cusolverDnDscalHost cusolverDnDsteqrHost
        cusolverDnDsterfHost cusolverDnDsyevdx cusolverDnDsyevdx_bufferSize cusolverDnDsygst cusolverDnDsygst_bufferSize
        cusolverDnDsygvd cusolverDnDsygvd_bufferSize cusolverDnDsygvdx cusolverDnDsygvdx_bufferSize cusolverDnDsygvj
        cusolverDnDsygvj_bufferSize cusolverDnDsytrf cusolverDnDsytrf_bufferSize cusolverDnDsytri cusolverDnDsytriHost
        cusolverDnDsytri_bufferSize cusolverDnDsytrsHost cusolverDnDtrtriHost cusolverDnGetDeterministicMode
        cusolverDnGetEmulationSpecialValuesSupport cusolverDnGetEmulationStrategy
        cusolverDnGetFixedPointEmulationMantissaBitOffset cusolverDnGetFixedPointEmulationMantissaControl
        cusolverDnGetFixedPointEmulationMaxMantissaBitCount cusolverDnGetMathMode cusolverDnIRSInfosCreate
        cusolverDnIRSInfosDestroy cusolverDnIRSInfosGetMaxIters cusolverDnIRSInfosGetNiters
        cusolverDnIRSInfosGetOuterNiters cusolverDnIRSInfosGetResidualHistory cusolverDnIRSInfosRequestResidual
        cusolverDnIRSParamsCreate cusolverDnIRSParamsDestroy cusolverDnIRSParamsDisableFallback
        cusolverDnIRSParamsEnableFallback cusolverDnIRSParamsGetMaxIters cusolverDnIRSParamsSetMaxIters
        cusolverDnIRSParamsSetMaxItersInner cusolverDnIRSParamsSetRefinementSolver
        cusolverDnIRSParamsSetSolverLowestPrecision cusolverDnIRSParamsSetSolverMainPrecision
        cusolverDnIRSParamsSetSolverPrecisions cusolverDnIRSParamsSetTol cusolverDnIRSParamsSetTolInner
        cusolverDnIRSXgels cusolverDnIRSXgels_bufferSize cusolverDnIRSXgesv cusolverDnIRSXgesv_bufferSize
        cusolverDnSBgels cusolverDnSBgels_bufferSize cusolverDnSBgesv cusolverDnSBgesv_bufferSize cusolverDnSHgels
        cusolverDnSHgels_bufferSize cusolverDnSHgesv cusolverDnSHgesv_bufferSize cusolverDnSSgels
        cusolverDnSSgels_bufferSize cusolverDnSSgesv cusolverDnSSgesv_bufferSize cusolverDnSXgels
        cusolverDnSXgels_bufferSize cusolverDnSXgesv cusolverDnSXgesv_bufferSize cusolverDnSaxpyHost
        cusolverDnSetAdvOptions cusolverDnSetDeterministicMode cusolverDnSetEmulationSpecialValuesSupport
        cusolverDnSetEmulationStrategy cusolverDnSetFixedPointEmulationMantissaBitOffset
        cusolverDnSetFixedPointEmulationMantissaControl cusolverDnSetFixedPointEmulationMaxMantissaBitCount
        cusolverDnSetMathMode cusolverDnSeyeBatch cusolverDnSgebrd cusolverDnSgebrd_bufferSize cusolverDnSgelqfHost
        cusolverDnSgemmHost cusolverDnSgeqlfHost cusolverDnSgeqrfHost cusolverDnSlacpyHost cusolverDnSlamchHost
        cusolverDnSlange cusolverDnSlangeHost cusolverDnSlange_bufferSize cusolverDnSlansyHost cusolverDnSlantrHost
        cusolverDnSlarfgHost cusolverDnSlarnvHost cusolverDnSlasetHost cusolverDnSlaswp cusolverDnSlauum
        cusolverDnSlauumHost cusolverDnSlauum_bufferSize cusolverDnSnrm2Host cusolverDnSorgbr cusolverDnSorgbrHost
        cusolverDnSorgbr_bufferSize cusolverDnSorghrHost cusolverDnSorglqHost cusolverDnSorgtr cusolverDnSorgtrHost
        cusolverDnSorgtr_bufferSize cusolverDnSormqrHost cusolverDnSormtr cusolverDnSormtrHost
        cusolverDnSormtr_bufferSize cusolverDnSpotrfHost cusolverDnSpotri cusolverDnSpotriHost
        cusolverDnSpotri_bufferSize cusolverDnSpotrsHost cusolverDnSscalHost cusolverDnSsteqrHost cusolverDnSsterfHost
        cusolverDnSsyevdx cusolverDnSsyevdx_bufferSize cusolverDnSsygst cusolverDnSsygst_bufferSize cusolverDnSsygvd
        cusolverDnSsygvd_bufferSize cusolverDnSsygvdx cusolverDnSsygvdx_bufferSize cusolverDnSsygvj
        cusolverDnSsygvj_bufferSize cusolverDnSsytrf cusolverDnSsytrf_bufferSize cusolverDnSsytri cusolverDnSsytriHost
        cusolverDnSsytri_bufferSize cusolverDnSsytrsHost cusolverDnStrtriHost cusolverDnXfillRandNormalOnDevice
        cusolverDnXfillRandNormalOnHost cusolverDnXgeev cusolverDnXgeev_bufferSize cusolverDnXgesvdjGetResidual
        cusolverDnXgesvdjGetSweeps cusolverDnXgesvdp cusolverDnXgesvdp_bufferSize cusolverDnXgesvdr
        cusolverDnXgesvdr_bufferSize cusolverDnXhetrf cusolverDnXhetrf_bufferSize cusolverDnXhetrs
        cusolverDnXhetrs_bufferSize cusolverDnXlansy cusolverDnXlansy_bufferSize cusolverDnXlarft
        cusolverDnXlarft_bufferSize cusolverDnXpolar cusolverDnXpolar_bufferSize cusolverDnXstedc
        cusolverDnXstedc_bufferSize cusolverDnXsyevdx cusolverDnXsyevdx_bufferSize cusolverDnXsyevjGetResidual
        cusolverDnXsyevjGetSweeps cusolverDnXsygvStridedBatched cusolverDnXsygvStridedBatched_bufferSize
        cusolverDnXsygvd cusolverDnXsygvd_bufferSize cusolverDnXsygvdx cusolverDnXsygvdx_bufferSize cusolverDnXsytrf
        cusolverDnXsytrf_bufferSize cusolverDnXsytrs cusolverDnXsytrs_bufferSize cusolverDnXtrtri
        cusolverDnXtrtri_bufferSize cusolverDnZCgels cusolverDnZCgels_bufferSize cusolverDnZCgesv
        cusolverDnZCgesv_bufferSize cusolverDnZEgels cusolverDnZEgels_bufferSize cusolverDnZEgesv
        cusolverDnZEgesv_bufferSize cusolverDnZKgels cusolverDnZKgels_bufferSize cusolverDnZKgesv
        cusolverDnZKgesv_bufferSize cusolverDnZYgels cusolverDnZYgels_bufferSize cusolverDnZYgesv
        cusolverDnZYgesv_bufferSize cusolverDnZZgels cusolverDnZZgels_bufferSize cusolverDnZZgesv
        cusolverDnZZgesv_bufferSize cusolverDnZaxpyHost cusolverDnZdscalHost cusolverDnZeyeBatch cusolverDnZgebrd
        cusolverDnZgebrd_bufferSize cusolverDnZgelqfHost cusolverDnZgemmHost cusolverDnZgeqlfHost cusolverDnZgeqrfHost
        cusolverDnZheevdx cusolverDnZheevdx_bufferSize cusolverDnZhegst cusolverDnZhegst_bufferSize cusolverDnZhegvd
        cusolverDnZhegvd_bufferSize cusolverDnZhegvdx cusolverDnZhegvdx_bufferSize cusolverDnZhegvj
        cusolverDnZhegvj_bufferSize cusolverDnZhetrf cusolverDnZhetrf_bufferSize cusolverDnZlacpyHost cusolverDnZlange
        cusolverDnZlangeHost cusolverDnZlange_bufferSize cusolverDnZlanheHost cusolverDnZlantrHost cusolverDnZlarfgHost
        cusolverDnZlarnvHost cusolverDnZlasetHost cusolverDnZlaswp cusolverDnZlauum cusolverDnZlauumHost
        cusolverDnZlauum_bufferSize cusolverDnZnrm2Host cusolverDnZpotrfHost cusolverDnZpotri cusolverDnZpotriHost
        cusolverDnZpotri_bufferSize cusolverDnZpotrsHost cusolverDnZsytrf cusolverDnZsytrf_bufferSize cusolverDnZsytri
        cusolverDnZsytriHost cusolverDnZsytri_bufferSize cusolverDnZsytrsHost cusolverDnZtrtriHost cusolverDnZungbr
        cusolverDnZungbrHost cusolverDnZungbr_bufferSize cusolverDnZunghrHost cusolverDnZunglqHost cusolverDnZungtr
        cusolverDnZungtrHost cusolverDnZungtr_bufferSize cusolverDnZunmqrHost cusolverDnZunmtr cusolverDnZunmtrHost
        cusolverDnZunmtr_bufferSize cusolverIidentityHost cusolverRfAccessBundledFactorsDevice cusolverRfAnalyze
        cusolverRfBatchAnalyze cusolverRfBatchRefactor cusolverRfBatchResetValues cusolverRfBatchSetupHost
        cusolverRfBatchSolve cusolverRfBatchZeroPivot cusolverRfCreate cusolverRfDestroy
        cusolverRfExtractBundledFactorsHost cusolverRfExtractSplitFactorsHost cusolverRfGetAlgs
        cusolverRfGetMatrixFormat cusolverRfGetNumericBoostReport cusolverRfGetNumericProperties
        cusolverRfGetResetValuesFastMode cusolverRfRefactor cusolverRfResetValues cusolverRfSetAlgs
        cusolverRfSetMatrixFormat cusolverRfSetNumericProperties cusolverRfSetResetValuesFastMode cusolverRfSetupDevice
        cusolverRfSetupHost cusolverRfSetupM cusolverRfSolve cusolverSpCcsrbtfHost cusolverSpCcsrcholBufferInfo
        cusolverSpCcsrcholBufferInfoHost cusolverSpCcsrcholDiag cusolverSpCcsrcholFactor cusolverSpCcsrcholFactorHost
        cusolverSpCcsrcholSolve cusolverSpCcsrcholSolveHost cusolverSpCcsrcholZeroPivot cusolverSpCcsrcholZeroPivotHost
        cusolverSpCcsreigsHost cusolverSpCcsreigvsi cusolverSpCcsreigvsiHost cusolverSpCcsrlsqvqrHost
        cusolverSpCcsrlsvchol cusolverSpCcsrlsvcholHost cusolverSpCcsrlsvluHost cusolverSpCcsrlsvqr
        cusolverSpCcsrlsvqrHost cusolverSpCcsrluAnalysisHost cusolverSpCcsrluBufferInfoHost
        cusolverSpCcsrluExtractBTFHost cusolverSpCcsrluExtractHost cusolverSpCcsrluExtractMHost
        cusolverSpCcsrluFactorHost cusolverSpCcsrluSolveHost cusolverSpCcsrluZeroPivotHost cusolverSpCcsrlucondHost
        cusolverSpCcsrqrBufferInfo cusolverSpCcsrqrBufferInfoBatched cusolverSpCcsrqrBufferInfoHost
        cusolverSpCcsrqrFactor cusolverSpCcsrqrFactorHost cusolverSpCcsrqrSetup cusolverSpCcsrqrSetupHost
        cusolverSpCcsrqrSolve cusolverSpCcsrqrSolveHost cusolverSpCcsrqrZeroPivot cusolverSpCcsrqrZeroPivotHost
        cusolverSpCcsrqrrcond cusolverSpCcsrqrsvBatched cusolverSpCcsrsubm2denseHost cusolverSpCcsrzfdHost
        cusolverSpCreate cusolverSpCreateCsrcholInfo cusolverSpCreateCsrcholInfoHost cusolverSpCreateCsrluInfoHost
        cusolverSpCreateCsrqrInfo cusolverSpCreateCsrqrInfoHost cusolverSpCreateGluInfo cusolverSpCreateSnluInfo
        cusolverSpCsnluBuffersize cusolverSpCsnluFactor cusolverSpCsnluSolve cusolverSpCsymgthr cusolverSpCsymgthrHost
        cusolverSpDcsrbtfHost cusolverSpDcsrcholBufferInfo cusolverSpDcsrcholBufferInfoHost cusolverSpDcsrcholDiag
        cusolverSpDcsrcholFactor cusolverSpDcsrcholFactorHost cusolverSpDcsrcholSolve cusolverSpDcsrcholSolveHost
        cusolverSpDcsrcholZeroPivot cusolverSpDcsrcholZeroPivotHost cusolverSpDcsreigsHost cusolverSpDcsreigvsi
        cusolverSpDcsreigvsiHost cusolverSpDcsrlsqvqrHost cusolverSpDcsrlsvchol cusolverSpDcsrlsvcholHost
        cusolverSpDcsrlsvluHost cusolverSpDcsrlsvqr cusolverSpDcsrlsvqrHost cusolverSpDcsrluAnalysisHost
        cusolverSpDcsrluBufferInfoHost cusolverSpDcsrluExtractBTFHost cusolverSpDcsrluExtractHost
        cusolverSpDcsrluExtractMHost cusolverSpDcsrluFactorHost cusolverSpDcsrluSolveHost cusolverSpDcsrluZeroPivotHost
        cusolverSpDcsrlucondHost cusolverSpDcsrqrBufferInfo cusolverSpDcsrqrBufferInfoBatched
        cusolverSpDcsrqrBufferInfoHost cusolverSpDcsrqrFactor cusolverSpDcsrqrFactorHost cusolverSpDcsrqrSetup
        cusolverSpDcsrqrSetupHost cusolverSpDcsrqrSolve cusolverSpDcsrqrSolveHost cusolverSpDcsrqrZeroPivot
        cusolverSpDcsrqrZeroPivotHost cusolverSpDcsrqrrcond cusolverSpDcsrqrsvBatched cusolverSpDcsrsubm2denseHost
        cusolverSpDcsrzfdHost cusolverSpDestroy cusolverSpDestroyCsrcholInfo cusolverSpDestroyCsrcholInfoHost
        cusolverSpDestroyCsrluInfoHost cusolverSpDestroyCsrqrInfo cusolverSpDestroyCsrqrInfoHost
        cusolverSpDestroyGluInfo cusolverSpDestroySnluInfo cusolverSpDgluAnalysis cusolverSpDgluBufferSize
        cusolverSpDgluExtractMHost cusolverSpDgluFactor cusolverSpDgluNumericBoost cusolverSpDgluReset
        cusolverSpDgluSetup cusolverSpDgluSetupByTile cusolverSpDgluSolve cusolverSpDnrminf cusolverSpDsnluBuffersize
        cusolverSpDsnluFactor cusolverSpDsnluSolve cusolverSpDsymgthr cusolverSpDsymgthrHost cusolverSpGetStream
        cusolverSpLcsrqrBufferInfo cusolverSpLcsrqrFactor cusolverSpLcsrqrSetup cusolverSpLcsrqrSolve
        cusolverSpLcsrqrSolveRefine cusolverSpLcsrqrZeroPivot cusolverSpLcsrqrrcond cusolverSpQcsrqrBufferInfo
        cusolverSpQcsrqrFactor cusolverSpQcsrqrSetup cusolverSpQcsrqrSolve cusolverSpQcsrqrSolveRefine
        cusolverSpQcsrqrZeroPivot cusolverSpQcsrqrrcond cusolverSpScsrbtfHost cusolverSpScsrcholBufferInfo
        cusolverSpScsrcholBufferInfoHost cusolverSpScsrcholDiag cusolverSpScsrcholFactor cusolverSpScsrcholFactorHost
        cusolverSpScsrcholSolve cusolverSpScsrcholSolveHost cusolverSpScsrcholZeroPivot cusolverSpScsrcholZeroPivotHost
        cusolverSpScsreigsHost cusolverSpScsreigvsi cusolverSpScsreigvsiHost cusolverSpScsrlsqvqrHost
        cusolverSpScsrlsvchol cusolverSpScsrlsvcholHost cusolverSpScsrlsvluHost cusolverSpScsrlsvqr
        cusolverSpScsrlsvqrHost cusolverSpScsrluAnalysisHost cusolverSpScsrluBufferInfoHost
        cusolverSpScsrluExtractBTFHost cusolverSpScsrluExtractHost cusolverSpScsrluExtractMHost
        cusolverSpScsrluFactorHost cusolverSpScsrluSolveHost cusolverSpScsrluZeroPivotHost cusolverSpScsrlucondHost
        cusolverSpScsrqrBufferInfo cusolverSpScsrqrBufferInfoBatched cusolverSpScsrqrBufferInfoHost
        cusolverSpScsrqrFactor cusolverSpScsrqrFactorHost cusolverSpScsrqrSetup cusolverSpScsrqrSetupHost
        cusolverSpScsrqrSolve cusolverSpScsrqrSolveHost cusolverSpScsrqrZeroPivot cusolverSpScsrqrZeroPivotHost
        cusolverSpScsrqrrcond cusolverSpScsrqrsvBatched cusolverSpScsrsubm2denseHost cusolverSpScsrzfdHost
        cusolverSpSetStream cusolverSpSsnluBuffersize cusolverSpSsnluFactor cusolverSpSsnluSolve cusolverSpSsymgthr
        cusolverSpSsymgthrHost cusolverSpXcsr2cscHost cusolverSpXcsr2csc_bufferSizeHost cusolverSpXcsrcholAnalysis
        cusolverSpXcsrcholAnalysisHost cusolverSpXcsrissymHost cusolverSpXcsrluAnalysisHost cusolverSpXcsrluConfigHost
        cusolverSpXcsrluNnzHost cusolverSpXcsrluNnzMHost cusolverSpXcsrmetisndHost cusolverSpXcsrnsepHost
        cusolverSpXcsrpermHost cusolverSpXcsrperm_bufferSizeHost cusolverSpXcsrqrAnalysis
        cusolverSpXcsrqrAnalysisBatched cusolverSpXcsrqrAnalysisHost cusolverSpXcsrqrConfigInfo cusolverSpXcsrsubmHost
        cusolverSpXcsrsubmNnzHost cusolverSpXcsrsymamdHost cusolverSpXcsrsymmdqHost cusolverSpXcsrsympermHost
        cusolverSpXcsrsymperm_bufferSizeHost cusolverSpXcsrsymrcmHost cusolverSpXgluZeroPivot cusolverSpXsnluAnalysis
        cusolverSpXsnluFlops cusolverSpXsnluReport cusolverSpXsnluResizeSupernodeBy cusolverSpXsnluSetReorder
        cusolverSpZcsrbtfHost cusolverSpZcsrcholBufferInfo cusolverSpZcsrcholBufferInfoHost cusolverSpZcsrcholDiag
        cusolverSpZcsrcholFactor cusolverSpZcsrcholFactorHost cusolverSpZcsrcholSolve cusolverSpZcsrcholSolveHost
        cusolverSpZcsrcholZeroPivot cusolverSpZcsrcholZeroPivotHost cusolverSpZcsreigsHost cusolverSpZcsreigvsi
        cusolverSpZcsreigvsiHost cusolverSpZcsrlsqvqrHost cusolverSpZcsrlsvchol cusolverSpZcsrlsvcholHost
        cusolverSpZcsrlsvluHost cusolverSpZcsrlsvqr cusolverSpZcsrlsvqrHost cusolverSpZcsrluAnalysisHost
        cusolverSpZcsrluBufferInfoHost cusolverSpZcsrluExtractBTFHost cusolverSpZcsrluExtractHost
        cusolverSpZcsrluExtractMHost cusolverSpZcsrluFactorHost cusolverSpZcsrluSolveHost cusolverSpZcsrluZeroPivotHost
        cusolverSpZcsrlucondHost cusolverSpZcsrqrBufferInfo cusolverSpZcsrqrBufferInfoBatched
        cusolverSpZcsrqrBufferInfoHost cusolverSpZcsrqrFactor cusolverSpZcsrqrFactorHost cusolverSpZcsrqrSetup
        cusolverSpZcsrqrSetupHost cusolverSpZcsrqrSolve cusolverSpZcsrqrSolveHost cusolverSpZcsrqrZeroPivot
        cusolverSpZcsrqrZeroPivotHost cusolverSpZcsrqrrcond cusolverSpZcsrqrsvBatched cusolverSpZcsrsubm2denseHost
        cusolverSpZcsrzfdHost cusolverSpZsnluBuffersize cusolverSpZsnluFactor cusolverSpZsnluSolve cusolverSpZsymgthr
        cusolverSpZsymgthrHost cusolverXcsrqr_dump pegasusCcsr2dense pegasusCcsrmvHost pegasusDcsr2dense
        pegasusDcsrmvHost pegasusScsr2dense pegasusScsrmvHost pegasusXcoo2csr pegasusXcooStableSortByRow
        pegasusXcooStableSort_bufferSizeExt pegasusXcsr2coo pegasusZcsr2dense pegasusZcsrmvHost
    }
}

/// The tables of its parts.
pub(super) fn tables() -> [&'static [Export]; 5] {
    [EXPORTS, factor::EXPORTS, orthogonal::EXPORTS, eigen::EXPORTS, singular::EXPORTS]
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
