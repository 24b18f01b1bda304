//! libcudnn: handles, stream, versions, texts, descriptions of tensors and the space that batch normalization needs are real. Graphs
//! of operations (`backend`) are where nothing computes. All else that describes or runs a layer is a stub.

mod backend;

use std::ffi::{CStr, c_char, c_int};

use abi::argument::Out;
use dataplane::lock::Mutex;

use super::objects::{Answer, Code, Objects, Refusals, Stream, kind};
use super::release;
use crate::boundary::table::exports;
use crate::device;
use crate::device::state::version;

/// CUDNN_STATUS_BAD_PARAM, and the same with "null pointer" for an argument.
const REFUSALS: Refusals = Refusals { handle: 2000, value: 2002 };
/// CUDNN_STATUS_NOT_INITIALIZED.
const NOT_INITIALIZED: Code = Code(1001);
/// CUDNN_STATUS_BAD_PARAM and CUDNN_STATUS_NOT_SUPPORTED.
const BAD: Code = Code(2000);
const NOT_SUPPORTED: Code = Code(3000);
/// CUDNN_DIM_MAX.
const DIMENSIONS: usize = 8;
/// The last `cudnnDataType_t` of cuDNN 9: FP4_E2M1.
const LAST_TYPE: c_int = 16;
static HANDLES: Objects<Stream> = Objects::new(kind::CUDNN, REFUSALS);
static TENSORS: Objects<Mutex<Tensor>> = Objects::new(kind::CUDNN_TENSOR, REFUSALS);

/// `cudnnTensorDescriptor_t`: a datatype, and the size and stride in elements of each dimension; none if it was not set.
#[derive(Clone, Debug, Default)]
struct Tensor {
    datatype: c_int,
    sizes: Vec<c_int>,
    strides: Vec<c_int>,
}

exports! {
    library Cudnn;
    real {
        fn cudnnCreate(handle: Out<usize>) = create;
        fn cudnnDestroy(handle: usize) = |handle| HANDLES.destroy(handle);
        fn cudnnSetStream(handle: usize, stream: usize) = |handle, stream| HANDLES.get(handle).map(|handle| handle.set(stream));
        fn cudnnCreateTensorDescriptor(tensor: Out<usize>) = |tensor| TENSORS.create(tensor, Mutex::default());
        fn cudnnDestroyTensorDescriptor(tensor: usize) = |tensor| TENSORS.destroy(tensor);
        fn cudnnSetTensorNdDescriptor(tensor: usize, datatype: c_int, count: c_int, sizes: Out<c_int>, strides: Out<c_int>) = set_tensor;
        fn cudnnGetTensorNdDescriptor(tensor: usize, most: c_int, datatype: Out<c_int>, count: Out<c_int>, sizes: Out<c_int>, strides: Out<c_int>) = get_tensor;
        fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle: usize, mode: c_int, operations: c_int, activation: usize, tensor: usize, bytes: Out<usize>) = reserve_space;
        fn cudnnBackendCreateDescriptor(kind: c_int, descriptor: Out<usize>) = backend::create;
        fn cudnnBackendDestroyDescriptor(descriptor: usize) = |descriptor| backend::DESCRIPTORS.destroy(descriptor);
        fn cudnnBackendSetAttribute(descriptor: usize, name: c_int, kind: c_int, count: i64, elements: Out<u8>) = backend::set;
        fn cudnnBackendGetAttribute(descriptor: usize, name: c_int, kind: c_int, room: i64, count: Out<i64>, elements: Out<u8>) = backend::get;
        fn cudnnBackendFinalize(descriptor: usize) = backend::finalize;
        fn cudnnBackendExecute(handle: usize, plan: usize, pack: usize) = backend::execute;
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
        cudnnActivationBackward cudnnActivationForward cudnnAddTensor cudnnAdvVersionCheck cudnnBackendInitialize
        cudnnBatchNormalizationBackwardEx cudnnBatchNormalizationForwardInference
        cudnnBatchNormalizationForwardTrainingEx cudnnCTCLoss cudnnCTCLoss_v8 cudnnCnnVersionCheck
        cudnnConvolutionBackwardData cudnnConvolutionBackwardFilter cudnnConvolutionBiasActivationForward
        cudnnConvolutionForward cudnnCreateActivationDescriptor cudnnCreateCTCLossDescriptor
        cudnnCreateConvolutionDescriptor cudnnCreateDropoutDescriptor cudnnCreateFilterDescriptor
        cudnnCreatePoolingDescriptor cudnnCreateRNNDataDescriptor cudnnCreateRNNDescriptor
        cudnnCreateReduceTensorDescriptor cudnnCreateSpatialTransformerDescriptor cudnnDestroyActivationDescriptor
        cudnnDestroyCTCLossDescriptor cudnnDestroyConvolutionDescriptor cudnnDestroyDropoutDescriptor
        cudnnDestroyFilterDescriptor cudnnDestroyPoolingDescriptor cudnnDestroyRNNDataDescriptor
        cudnnDestroyRNNDescriptor cudnnDestroySpatialTransformerDescriptor cudnnDropoutBackward cudnnDropoutForward
        cudnnDropoutGetStatesSize cudnnFindConvolutionBackwardDataAlgorithmEx
        cudnnFindConvolutionBackwardFilterAlgorithmEx cudnnFindConvolutionForwardAlgorithmEx
        cudnnGetBatchNormalizationBackwardExWorkspaceSize cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize
        cudnnGetCTCLossWorkspaceSize cudnnGetCTCLossWorkspaceSize_v8 cudnnGetCallback
        cudnnGetConvolutionBackwardDataAlgorithm_v7 cudnnGetConvolutionBackwardDataWorkspaceSize
        cudnnGetConvolutionBackwardFilterAlgorithm_v7 cudnnGetConvolutionBackwardFilterWorkspaceSize
        cudnnGetConvolutionForwardAlgorithm_v7 cudnnGetConvolutionForwardWorkspaceSize cudnnGetFilterNdDescriptor
        cudnnGetRNNTempSpaceSizes cudnnGetRNNWeightParams cudnnGetRNNWeightSpaceSize cudnnGraphVersionCheck
        cudnnOpsVersionCheck cudnnPoolingBackward cudnnPoolingForward cudnnQueryRuntimeError cudnnRNNBackwardData_v8
        cudnnRNNBackwardWeights_v8 cudnnRNNForward cudnnReduceTensor cudnnRestoreDropoutDescriptor cudnnScaleTensor
        cudnnSetActivationDescriptor cudnnSetCTCLossDescriptorEx cudnnSetCTCLossDescriptor_v9 cudnnSetCallback
        cudnnSetConvolution2dDescriptor cudnnSetConvolutionGroupCount cudnnSetConvolutionMathType
        cudnnSetConvolutionNdDescriptor cudnnSetDropoutDescriptor cudnnSetFilter4dDescriptor cudnnSetFilterNdDescriptor
        cudnnSetPooling2dDescriptor cudnnSetRNNDataDescriptor cudnnSetRNNDescriptor_v8
        cudnnSetSpatialTransformerNdDescriptor cudnnSetTensor cudnnSetTensor4dDescriptor cudnnSetTensor4dDescriptorEx
        cudnnSoftmaxBackward cudnnSoftmaxForward cudnnSpatialTfGridGeneratorBackward cudnnSpatialTfGridGeneratorForward
        cudnnSpatialTfSamplerBackward cudnnSpatialTfSamplerForward cudnnTransformTensor
    }
}

fn create(handle: Out<usize>) -> Answer {
    device::current().map_err(|_| NOT_INITIALIZED)?;
    HANDLES.create(handle, Stream::default())
}

/// <https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/cudnn-ops-library.html#cudnnsettensornddescriptor>
fn set_tensor(tensor: usize, datatype: c_int, count: c_int, sizes: Out<c_int>, strides: Out<c_int>) -> Answer {
    let tensor = TENSORS.get(tensor)?;
    let count = usize::try_from(count).ok().filter(|count| (4..=DIMENSIONS).contains(count)).ok_or(NOT_SUPPORTED)?;
    let [sizes, strides] = [sizes, strides].map(|list| list.list(count).map_err(REFUSALS.null()));
    let (sizes, strides) = (sizes?, strides?);
    if !(0..=LAST_TYPE).contains(&datatype) || sizes.iter().any(|size| *size <= 0) {
        return Err(BAD);
    }
    if sizes.iter().try_fold(1, |product: c_int, size| product.checked_mul(*size)).is_none() {
        return Err(NOT_SUPPORTED);
    }
    *tensor.lock() = Tensor { datatype, sizes, strides };
    Ok(())
}

fn get_tensor(
    tensor: usize,
    most: c_int,
    datatype: Out<c_int>,
    count: Out<c_int>,
    sizes: Out<c_int>,
    strides: Out<c_int>,
) -> Answer {
    let tensor = TENSORS.get(tensor)?.lock().clone();
    datatype.set(tensor.datatype).map_err(REFUSALS.null())?;
    count.set(tensor.sizes.len() as c_int).map_err(REFUSALS.null())?;
    let shown = usize::try_from(most).unwrap_or(0).min(tensor.sizes.len());
    for (out, values) in [(sizes, &tensor.sizes), (strides, &tensor.strides)] {
        for (index, value) in values.iter().take(shown).enumerate() {
            Out(out.required().map_err(REFUSALS.null())?.0.wrapping_add(index)).set(*value).map_err(REFUSALS.null())?;
        }
    }
    Ok(())
}

/// Batch normalization keeps nothing for its backward pass in `reserve` here. What an activation that is part of it would need is
/// not known.
fn reserve_space(
    handle: usize,
    mode: c_int,
    operations: c_int,
    _activation: usize,
    tensor: usize,
    bytes: Out<usize>,
) -> Answer {
    HANDLES.get(handle)?;
    if TENSORS.get(tensor)?.lock().sizes.is_empty() || !(0..=2).contains(&mode) || !(0..=2).contains(&operations) {
        return Err(BAD);
    }
    if operations != 0 {
        return Err(NOT_SUPPORTED);
    }
    bytes.set(0).map_err(REFUSALS.null())
}

fn get_property(which: c_int, value: Out<c_int>) -> Answer {
    match release::current().cudnn.property(which) {
        Some(part) => value.set(part).map_err(REFUSALS.null()),
        None => Err(Code(REFUSALS.handle)),
    }
}

/// cuDNN keeps a log of why a call failed; here the device report does.
fn last_error(message: *mut c_char, length: usize) {
    let _ = Out(message).fill(length, "");
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
