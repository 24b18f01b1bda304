//! `calls!`: a routine's signature and body stand once; its C functions, for each number type and both widths of sizes, come from
//! them.

/// Declares routines and the exported functions that call them:
///
/// ```text
/// calls! {
///     fn axpy[T: Number,](handle: usize, n: Int, alpha: usize, x: usize, sx: Int, y: usize, sy: Int) { ... }
///     [f32,] cublasSaxpy_v2 cublasSaxpy_v2_64, [f64,] cublasDaxpy_v2 cublasDaxpy_v2_64;
///     => { fn rotg[T: Number,](..) { ... } [f32,] cublasSrotg_v2; }   // at the end: functions without a `_64` form
/// }
/// ```
///
/// `cublasSaxpy_v2` calls `axpy::<f32, c_int>`, `cublasSaxpy_v2_64` calls `axpy::<f32, i64>`: `Int` is the last parameter. Pointers
/// are `usize`.
macro_rules! calls {
    (
        $(
            $(#[$attribute:meta])*
            fn $body:ident[$($parameters:tt)*]$arguments:tt $code:block
            $([$($kind:tt)*] $narrow:ident $wide:ident),*;
        )*
        $(=> {
            $(
                $(#[$single_attribute:meta])*
                fn $single:ident[$($single_parameters:tt)*]$single_arguments:tt $single_code:block
                $([$($single_kind:tt)*] $name:ident),*;
            )*
        })?
    ) => {
        $(
            $(#[$attribute])*
            fn $body<$($parameters)* Int: Into<i64> + Copy>$arguments -> $crate::libraries::objects::Answer $code
        )*
        $($(
            $(#[$single_attribute])*
            fn $single<$($single_parameters)*>$single_arguments -> $crate::libraries::objects::Answer $single_code
        )*)?

        mod narrow {
            use super::*;
            type Int = std::ffi::c_int;
            $crate::boundary::table::exports! {
                library Cublas;
                real {
                    $($(fn $narrow $arguments = $body::<$($kind)* Int>;)*)*
                    $($($(fn $name $single_arguments = $single::<$($single_kind)*>;)*)*)?
                }
            }
        }
        mod wide {
            use super::*;
            type Int = i64;
            $crate::boundary::table::exports! {
                library Cublas;
                real { $($(fn $wide $arguments = $body::<$($kind)* Int>;)*)* }
            }
        }

        /// Every symbol of these routines.
        pub(crate) const TABLES: [&[abi::table::Export]; 2] = [narrow::EXPORTS, wide::EXPORTS];
    };
}

pub(crate) use calls;
