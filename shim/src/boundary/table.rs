//! `exports!`: one table per library defines its C symbols and lists them. Only names in a table are exported.

/// Declares the C symbols of one library, in the sections of [`abi::functions!`]:
///
/// ```text
/// exports! {
///     library CudaDriver with cuda_driver::RULES;   // without `with`, a library adds nothing to the guard
///     real { fn cuInit(flags: c_uint) = context::init; }
///     stub { cuBaz }
/// }
/// ```
///
/// The table is `EXPORTS` of the module that holds the macro; it must be listed in `exports::tables`.
macro_rules! exports {
    (library $library:ident; $($sections:tt)*) => {
        $crate::boundary::table::exports! {
            @rules $crate::boundary::guard::Rules::for_library(abi::library::Library::$library);
            library $library; $($sections)*
        }
    };
    (library $library:ident with $rules:path; $($sections:tt)*) => {
        $crate::boundary::table::exports! { @rules $rules; library $library; $($sections)* }
    };
    (@rules $rules:expr; library $library:ident; $($sections:tt)*) => {
        const RULES: $crate::boundary::guard::Rules = $rules;

        abi::exports! { library $library guarded by RULES; $($sections)* }
    };
}

pub(crate) use exports;
