//! `calls!`: generates the C functions of one routine, for each number type and both size widths, from one signature.

/// Declares exported functions whose bodies are generic functions of this module:
///
/// ```text
/// calls! {
///     axpy(handle: usize, n: Int, alpha: usize, x: usize, step_x: Int, y: usize, step_y: Int)
///         [f32] cublasSaxpy_v2 cublasSaxpy_v2_64, [f64] cublasDaxpy_v2 cublasDaxpy_v2_64;
///     => { copy_ex(..) [] cublasFoo; }   // at the end: functions without a `_64` form
/// }
/// ```
///
/// `cublasSaxpy_v2` calls `axpy::<f32, c_int>`, `cublasSaxpy_v2_64` calls `axpy::<f32, i64>`. Pointers are `usize`.
macro_rules! calls {
    (
        $($body:ident $args:tt $([$($kind:tt)*] $narrow:ident $wide:ident),* ;)*
        $(=> { $($single:ident $single_args:tt $([$($single_kind:tt)*] $name:ident),* ;)* })?
    ) => {
        mod narrow {
            use super::*;
            type Int = std::ffi::c_int;
            $crate::boundary::table::exports! {
                library Cublas;
                real {
                    $($(fn $narrow $args = $body::<$($kind)* Int>;)*)*
                    $($($(fn $name $single_args = $single::<$($single_kind)*>;)*)*)?
                }
            }
        }
        mod wide {
            use super::*;
            type Int = i64;
            $crate::boundary::table::exports! {
                library Cublas;
                real { $($(fn $wide $args = $body::<$($kind)* Int>;)*)* }
            }
        }

        /// Every symbol of these routines.
        pub(crate) const TABLES: [&[abi::table::Export]; 2] = [narrow::EXPORTS, wide::EXPORTS];
    };
}

pub(crate) use calls;
