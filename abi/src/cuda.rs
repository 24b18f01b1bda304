//! CUDA's error codes. `cudaError_t` and `CUresult` use the same numbers for errors that both have (CUDA 10.1 and
//! later): <https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html>.

use crate::argument::Null;
use crate::gap::Refused;

/// A code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaError(pub u32);

/// The result of a body.
pub type CudaResult<T = ()> = Result<T, CudaError>;

macro_rules! codes {
    ($($name:ident = $code:literal,)*) => {
        #[expect(missing_docs, reason = "NVIDIA's names without their prefix")]
        impl CudaError {
            $(pub const $name: Self = Self($code);)*
        }
    };
}

codes! {
    INVALID_VALUE = 1,
    MEMORY_ALLOCATION = 2,
    NOT_INITIALIZED = 3,
    INVALID_CONFIGURATION = 9,
    INVALID_PITCH = 12,
    INVALID_SYMBOL = 13,
    INVALID_CHANNEL_DESCRIPTOR = 20,
    INVALID_MEMCPY_DIRECTION = 21,
    STUB_LIBRARY = 34,
    DEVICES_UNAVAILABLE = 46,
    MISSING_CONFIGURATION = 52,
    LAUNCH_MAX_DEPTH = 65,
    INVALID_DEVICE_FUNCTION = 98,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    MAP_FAILED = 205,
    ARRAY_IS_MAPPED = 207,
    NO_KERNEL_IMAGE = 209,
    ECC_UNCORRECTABLE = 214,
    PEER_ACCESS_UNSUPPORTED = 217,
    INVALID_PTX = 218,
    UNSUPPORTED_PTX_VERSION = 222,
    FILE_NOT_FOUND = 301,
    OPERATING_SYSTEM = 304,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_TIMEOUT = 702,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    PRIMARY_CONTEXT_ACTIVE = 708,
    ASSERT = 710,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    HARDWARE_STACK = 714,
    MISALIGNED_ADDRESS = 716,
    INVALID_PC = 718,
    LAUNCH_FAILURE = 719,
    COOPERATIVE_LAUNCH_TOO_LARGE = 720,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
    GRAPH_EXEC_UPDATE_FAILURE = 910,
    INVALID_CLUSTER_SIZE = 912,
    UNKNOWN = 999,
}

/// The answer of a function of CUDA.
///
/// # Errors
/// Any code except success.
#[inline]
pub fn check(code: u32) -> CudaResult {
    if code == 0 { Ok(()) } else { Err(CudaError(code)) }
}

impl From<CudaError> for u32 {
    #[inline]
    fn from(error: CudaError) -> Self {
        error.0
    }
}

impl From<Null> for CudaError {
    #[inline]
    fn from(_: Null) -> Self {
        Self::INVALID_VALUE
    }
}

impl From<Refused> for CudaError {
    fn from(refused: Refused) -> Self {
        Self(refused.0.not_supported())
    }
}
