//! Functions that compiled code calls, by their index in a table: pure ones over numbers, and those that see the thread.

mod bulk;
mod child;
mod image;
mod multicast;
mod number;
mod print;
mod surface;
mod thread;
mod video;

pub(crate) use image::{CUBE, DETAIL, GATHER, GRADIENTS, INTEGERS, LAYERS, OF_SURFACE, QUERIES};
pub(crate) use multicast::MulticastMode;
pub(crate) use surface::{OUTSIDE, SurfaceMode};
pub(crate) use thread::resolve_any;
pub(crate) use video::{LanesMode, MadMode, WholeMode};

macro_rules! helpers {
    ($($name:ident = $function:path),* $(,)?) => {
        /// A function of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Helper { $($name),* }

        impl Helper {
            /// All functions, with the names that `Debug` prints.
            pub(crate) const NAMES: &'static [(&'static str, Self)] = &[$((stringify!($name), Self::$name)),*];
        }

        /// The addresses of the functions, in the order of `Helper`.
        pub(crate) fn table() -> Vec<usize> {
            vec![$($function as *const () as usize),*]
        }
    };
}

helpers! {
    // Pure functions make one number of up to four, all of 64 bits.
    Soft = crate::number::arithmetic,
    Convert = crate::number::convert,
    F16ToF32 = number::f16_to_f32,
    F16ToF32Ftz = number::f16_to_f32_ftz,
    F32ToF16 = number::f32_to_f16,
    Approx = number::approximate,
    DivApprox = number::divide_approximately,
    Testp = number::test,
    Divide = number::divide,
    Mad24 = number::mad24,
    Bfind = number::bfind,
    Fns = number::fns,
    Bfe = number::bfe,
    Bfi = number::bfi,
    Bmsk = number::bmsk,
    Szext = number::szext,
    DotProduct = number::dot_product,
    Prmt = number::prmt,
    PackedInt = number::packed,
    Video = video::whole,
    VideoLanes = video::lanes,
    VideoMad = video::multiply_add,
    CvtPack = number::pack,
    Clock = thread::clock,
    // These get the context: the slow path of an access.
    Resolve = thread::resolve,
    ResolveRow = thread::resolve_row,
    Track = thread::track,
    // These see the thread; operands and result are in the context.
    Atomic = thread::atomic,
    Multicast = multicast::access,
    IsSpace = thread::is_space,
    MapAddress = thread::map_address,
    CtaRank = thread::cta_rank,
    Mbarrier = thread::mbarrier,
    CopyAsync = thread::copy_async,
    CopyBulk = bulk::copy,
    CopyTensor = bulk::tensor,
    ReplaceMap = bulk::replace,
    PublishMap = bulk::publish,
    FetchTexel = image::fetch,
    QueryImage = image::query,
    AccessSurface = surface::access,
    ReduceSurface = surface::reduce,
    Nanosleep = thread::nanosleep,
    StackCheck = thread::stack_check,
    Vprintf = print::vprintf,
    Malloc = thread::malloc,
    Free = thread::free,
    AssertFail = print::assert_fail,
    ChildParameters = child::parameters,
    ChildLaunch = child::launch,
    ChildCopy = child::copy,
    ChildStream = child::stream,
    ChildStreamEnd = child::end_stream,
    ChildMalloc = child::malloc,
    ChildFree = child::free,
    ChildError = child::error,
    ChildErrorPeek = child::peek_error,
    ChildErrorText = child::error_text,
    SetConditional = child::set_conditional,
}

/// Functions that the device's own libraries would provide, with the sizes of their arguments (12 is a `dim3`) and result.
pub(crate) const BUILTINS: [(&str, Helper, &[u32], u32); 15] = [
    ("vprintf", Helper::Vprintf, &[8, 8], 4),
    ("malloc", Helper::Malloc, &[8], 8),
    ("free", Helper::Free, &[8], 0),
    ("__assertfail", Helper::AssertFail, &[8, 8, 4, 8, 8], 0),
    ("__cudaCDP2GetParameterBufferV2", Helper::ChildParameters, &[8, 12, 12, 4], 8),
    ("__cudaCDP2LaunchDeviceV2", Helper::ChildLaunch, &[8, 8], 4),
    ("__cudaCDP2MemcpyAsync", Helper::ChildCopy, &[8, 8, 8, 4, 8], 4),
    ("__cudaCDP2StreamCreateWithFlags", Helper::ChildStream, &[8, 4], 4),
    ("__cudaCDP2StreamDestroy", Helper::ChildStreamEnd, &[8], 4),
    ("__cudaCDP2Malloc", Helper::ChildMalloc, &[8, 8], 4),
    ("__cudaCDP2Free", Helper::ChildFree, &[8], 4),
    ("__cudaCDP2GetLastError", Helper::ChildError, &[], 4),
    ("__cudaCDP2PeekAtLastError", Helper::ChildErrorPeek, &[], 4),
    ("__cudaCDP2GetErrorString", Helper::ChildErrorText, &[4], 8),
    ("cudaGraphSetConditional", Helper::SetConditional, &[8, 4], 0),
];

/// Whether a function without a body is one of [`BUILTINS`].
pub(crate) fn is_builtin(name: &str) -> bool {
    BUILTINS.iter().any(|builtin| builtin.0 == name)
}
