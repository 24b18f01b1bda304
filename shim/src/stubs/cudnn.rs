//! libcudnn: handles, stream, versions and texts are real. Everything that describes or runs a layer is a stub.

use std::ffi::{CStr, c_char, c_int};

use super::objects::{Answer, Code, Objects, Refusals, Stream, kind};
use super::release;
use crate::boundary::args::{self, Out};
use crate::boundary::table::exports;
use crate::device::{self, version};

/// CUDNN_STATUS_BAD_PARAM, and the same with "null pointer" for an argument.
const REFUSALS: Refusals = Refusals { handle: 2000, value: 2002 };
/// CUDNN_STATUS_NOT_INITIALIZED.
const NOT_INITIALIZED: Code = Code(1001);
static HANDLES: Objects<Stream> = Objects::new(kind::CUDNN, REFUSALS);

exports! {
    library Cudnn;
    real {
        fn cudnnCreate(handle: Out<usize>) = create;
        fn cudnnDestroy(handle: usize) = |handle| HANDLES.destroy(handle);
        fn cudnnSetStream(handle: usize, stream: usize) = |handle, stream| HANDLES.get(handle).map(|handle| handle.set(stream));
        fn cudnnGetStream(handle: usize, stream: Out<usize>) = |handle, stream| stream.set(HANDLES.get(handle)?.get()).map_err(REFUSALS.null());
    }
    bare {
        fn cudnnGetProperty(which: c_int, value: Out<c_int>) = get_property;
    }
    raw {
        fn cudnnGetVersion() -> usize = || release::current().cudnn.ten_thousands() as usize;
        fn cudnnGetMaxDeviceVersion() -> usize = || 1210;
        fn cudnnGetCudartVersion() -> usize = || version::runtime() as usize;
        fn cudnnGetErrorString(status: c_int) -> *const c_char = |status| text(status).as_ptr();
        fn cudnnGetLastErrorString(message: *mut c_char, length: usize) = last_error;
    }
    stub {
        cudnnActivationBackward cudnnActivationForward cudnnAddTensor cudnnAdvVersionCheck cudnnBackendCreateDescriptor
        cudnnBackendDestroyDescriptor cudnnBackendExecute cudnnBackendFinalize cudnnBackendGetAttribute
        cudnnBackendInitialize cudnnBackendSetAttribute cudnnBatchNormalizationBackwardEx
        cudnnBatchNormalizationForwardInference cudnnBatchNormalizationForwardTrainingEx cudnnCTCLoss cudnnCTCLoss_v8
        cudnnCnnVersionCheck cudnnConvolutionBackwardData cudnnConvolutionBackwardFilter
        cudnnConvolutionBiasActivationForward cudnnConvolutionForward cudnnCreateActivationDescriptor
        cudnnCreateCTCLossDescriptor cudnnCreateConvolutionDescriptor cudnnCreateDropoutDescriptor
        cudnnCreateFilterDescriptor cudnnCreatePoolingDescriptor cudnnCreateRNNDataDescriptor cudnnCreateRNNDescriptor
        cudnnCreateReduceTensorDescriptor cudnnCreateSpatialTransformerDescriptor cudnnCreateTensorDescriptor
        cudnnDestroyActivationDescriptor cudnnDestroyCTCLossDescriptor cudnnDestroyConvolutionDescriptor
        cudnnDestroyDropoutDescriptor cudnnDestroyFilterDescriptor cudnnDestroyPoolingDescriptor
        cudnnDestroyRNNDataDescriptor cudnnDestroyRNNDescriptor cudnnDestroySpatialTransformerDescriptor
        cudnnDestroyTensorDescriptor cudnnDropoutBackward cudnnDropoutForward cudnnDropoutGetStatesSize
        cudnnFindConvolutionBackwardDataAlgorithmEx cudnnFindConvolutionBackwardFilterAlgorithmEx
        cudnnFindConvolutionForwardAlgorithmEx cudnnGetBatchNormalizationBackwardExWorkspaceSize
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize cudnnGetBatchNormalizationTrainingExReserveSpaceSize
        cudnnGetCTCLossWorkspaceSize cudnnGetCTCLossWorkspaceSize_v8 cudnnGetCallback
        cudnnGetConvolutionBackwardDataAlgorithm_v7 cudnnGetConvolutionBackwardDataWorkspaceSize
        cudnnGetConvolutionBackwardFilterAlgorithm_v7 cudnnGetConvolutionBackwardFilterWorkspaceSize
        cudnnGetConvolutionForwardAlgorithm_v7 cudnnGetConvolutionForwardWorkspaceSize cudnnGetFilterNdDescriptor
        cudnnGetRNNTempSpaceSizes cudnnGetRNNWeightParams cudnnGetRNNWeightSpaceSize cudnnGetTensorNdDescriptor
        cudnnGraphVersionCheck cudnnOpsVersionCheck cudnnPoolingBackward cudnnPoolingForward cudnnQueryRuntimeError
        cudnnRNNBackwardData_v8 cudnnRNNBackwardWeights_v8 cudnnRNNForward cudnnReduceTensor
        cudnnRestoreDropoutDescriptor cudnnScaleTensor cudnnSetActivationDescriptor cudnnSetCTCLossDescriptorEx
        cudnnSetCTCLossDescriptor_v9 cudnnSetCallback cudnnSetConvolution2dDescriptor cudnnSetConvolutionGroupCount
        cudnnSetConvolutionMathType cudnnSetConvolutionNdDescriptor cudnnSetDropoutDescriptor cudnnSetFilter4dDescriptor
        cudnnSetFilterNdDescriptor cudnnSetPooling2dDescriptor cudnnSetRNNDataDescriptor cudnnSetRNNDescriptor_v8
        cudnnSetSpatialTransformerNdDescriptor cudnnSetTensor cudnnSetTensor4dDescriptor cudnnSetTensor4dDescriptorEx
        cudnnSetTensorNdDescriptor cudnnSoftmaxBackward cudnnSoftmaxForward cudnnSpatialTfGridGeneratorBackward
        cudnnSpatialTfGridGeneratorForward cudnnSpatialTfSamplerBackward cudnnSpatialTfSamplerForward
        cudnnTransformTensor
    }
}

fn create(handle: Out<usize>) -> Answer {
    device::current().map_err(|_| NOT_INITIALIZED)?;
    HANDLES.create(handle, Stream::default())
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cudnn.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => Err(Code(REFUSALS.handle)),
    }
}

/// cuDNN keeps a log of why a call failed; here the device report does.
fn last_error(message: *mut c_char, length: usize) {
    let _ = args::fill(message, length, "");
}

fn text(status: c_int) -> &'static CStr {
    match status {
        0 => c"CUDNN_STATUS_SUCCESS",
        1001 => c"CUDNN_STATUS_NOT_INITIALIZED",
        1002 => c"CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
        1003 => c"CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH",
        1004 => c"CUDNN_STATUS_DEPRECATED",
        1005 => c"CUDNN_STATUS_LICENSE_ERROR",
        1006 => c"CUDNN_STATUS_RUNTIME_IN_PROGRESS",
        1007 => c"CUDNN_STATUS_RUNTIME_FP_OVERFLOW",
        1008 => c"CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
        2000 => c"CUDNN_STATUS_BAD_PARAM",
        2002 => c"CUDNN_STATUS_BAD_PARAM_NULL_POINTER",
        2003 => c"CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER",
        2004 => c"CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED",
        3000 => c"CUDNN_STATUS_NOT_SUPPORTED",
        4000 => c"CUDNN_STATUS_INTERNAL_ERROR",
        5000 => c"CUDNN_STATUS_EXECUTION_FAILED",
        _ => c"CUDNN_UNKNOWN_STATUS",
    }
}
