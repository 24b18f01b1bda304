//! `exports!`: one table per library defines its C symbols and lists them. A name is `real` (implemented), `absent` (the GPU
//! lacks the feature), `refused` (NotSupported on purpose, as hardware may do) or `stub` (not implemented yet). Only names in a
//! table are exported.

use crate::boundary::library::Library;

/// What a symbol does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Answers.
    Real,
    /// For a feature that a simulated GPU lacks, as many real ones do: NotSupported is the correct answer.
    Absent,
    /// NotSupported on purpose.
    Refused,
    /// Not implemented yet: NotSupported and a gap.
    Stub,
}

impl Status {
    /// Word used in `exports/*.txt`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Absent => "absent",
            Self::Refused => "refused",
            Self::Stub => "stub",
        }
    }
}

/// Where a symbol's code starts.
#[derive(Clone, Copy, Debug)]
pub struct Address(pub *const ());

// SAFETY: the address of a function of this library, never written to.
unsafe impl Sync for Address {}
// SAFETY: as above.
unsafe impl Send for Address {}

/// One exported symbol.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// Symbol.
    pub name: &'static str,
    /// Whose it is.
    pub library: Library,
    /// What it does.
    pub status: Status,
    /// Its code.
    pub address: Address,
}

/// Declares the C symbols of one library, in this order of sections, each optional:
///
/// ```text
/// exports! {
///     library CudaDriver with cuda_driver::RULES;   // without `with`, a library adds nothing to the guard
///     real { fn cuInit(flags: c_uint) = context::init; }           // body: fn(..) -> Result<(), impl Into<u32>>
///     called { fn ncclReduce(...) = collective::reduce; }          // same, and where it was called from is kept
///     bare { fn cudaRuntimeGetVersion(out: Out<c_int>) = version::runtime; }   // same, but does not initialize anything
///     raw { fn cudaGetErrorString(code: u32) -> *const c_char = error::string; }  // body's value is returned as it is
///     absent { nvmlFoo }        // NotSupported, as the hardware itself answers
///     refused { cuFoo cuBar }
///     stub { cuBaz }
///     empty { cudnnGetFoo }     // a stub that returns 0 or NULL, for functions that return no status
///     second { Real pncclFoo = ncclFoo; }   // another name of a function above, with its status
/// }
/// ```
///
/// Bodies may be `unsafe fn`: the C caller is responsible for the pointers. The table is `EXPORTS` of the module that
/// holds the macro; it must be listed in `exports::tables`.
macro_rules! exports {
    (
        library $library:ident $(with $rules:path)?;
        $(real { $(fn $real:ident($($real_arg:ident: $real_type:ty),* $(,)?) = $real_body:expr;)* })?
        $(called { $(fn $called:ident($($called_arg:ident: $called_type:ty),* $(,)?) = $called_body:expr;)* })?
        $(bare { $(fn $bare:ident($($bare_arg:ident: $bare_type:ty),* $(,)?) = $bare_body:expr;)* })?
        $(raw { $(fn $raw:ident($($raw_arg:ident: $raw_type:ty),* $(,)?) $(-> $raw_return:ty)? = $raw_body:expr;)* })?
        $(absent { $($absent:ident)* })?
        $(refused { $($refused:ident)* })?
        $(stub { $($stub:ident)* })?
        $(empty { $($empty:ident)* })?
        $(second { $($second_status:ident $second:ident = $first:ident;)* })?
    ) => {
        const RULES: &$crate::boundary::guard::Rules = $crate::boundary::table::rules!($library $($rules)?);

        $($(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $real($($real_arg: $real_type),*) -> core::ffi::c_uint {
                $crate::boundary::guard::call(RULES, stringify!($real), || {
                    let body: unsafe fn($($real_type),*) -> _ = $real_body;
                    // SAFETY: the caller is C and answers for its pointers, as NVIDIA's documentation of the call asks.
                    unsafe { body($($real_arg),*) }
                })
            }
        )*)?
        $(
            #[expect(non_snake_case, reason = "C's names")]
            mod called {
                use super::*;

                $(
                    pub(super) extern "C" fn $called($($called_arg: $called_type),*) -> core::ffi::c_uint {
                        $crate::boundary::guard::call(RULES, stringify!($called), || {
                            let body: unsafe fn($($called_type),*) -> _ = $called_body;
                            // SAFETY: the caller is C and answers for its pointers, as NVIDIA's documentation of the call asks.
                            unsafe { body($($called_arg),*) }
                        })
                    }
                )*
            }

            $(
                // Any arguments: it goes on as the function of this name above.
                #[unsafe(no_mangle)]
                #[unsafe(naked)]
                pub(crate) extern "C" fn $called() {
                    $crate::call_site::caller::noted!(called::$called);
                }
            )*
        )?
        $($(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $bare($($bare_arg: $bare_type),*) -> core::ffi::c_uint {
                $crate::boundary::guard::bare(RULES, stringify!($bare), || {
                    let body: unsafe fn($($bare_type),*) -> _ = $bare_body;
                    // SAFETY: the caller is C and answers for its pointers, as NVIDIA's documentation of the call asks.
                    unsafe { body($($bare_arg),*) }
                })
            }
        )*)?
        $($(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $raw($($raw_arg: $raw_type),*) $(-> $raw_return)? {
                $crate::boundary::guard::raw(RULES, stringify!($raw), || {
                    let body: unsafe fn($($raw_type),*) $(-> $raw_return)? = $raw_body;
                    // SAFETY: the caller is C and answers for its pointers, as NVIDIA's documentation of the call asks.
                    unsafe { body($($raw_arg),*) }
                })
            }
        )*)?
        $($(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $absent() -> u64 {
                $crate::boundary::guard::absent(RULES)
            }
        )*)?
        $($(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $refused() -> u64 {
                $crate::boundary::guard::refused(RULES, stringify!($refused))
            }
        )*)?
        $($(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $stub() -> u64 {
                $crate::boundary::guard::stub(RULES, stringify!($stub))
            }
        )*)?
        $($(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $empty() -> u64 {
                $crate::boundary::guard::stub(RULES, stringify!($empty));
                0
            }
        )*)?

        $($(
            // Any arguments: it goes on where the other name begins. Bound here (`-Bsymbolic`), not to what a program puts
            // in front of the other name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub(crate) extern "C" fn $second() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {}", sym $first);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {}", sym $first);
            }
        )*)?

        /// Every symbol of the library.
        pub(crate) const EXPORTS: &[$crate::boundary::table::Export] = &[
            $($($crate::boundary::table::export!($library, Real, $real),)*)?
            $($($crate::boundary::table::export!($library, Real, $called),)*)?
            $($($crate::boundary::table::export!($library, Real, $bare),)*)?
            $($($crate::boundary::table::export!($library, Real, $raw),)*)?
            $($($crate::boundary::table::export!($library, Absent, $absent),)*)?
            $($($crate::boundary::table::export!($library, Refused, $refused),)*)?
            $($($crate::boundary::table::export!($library, Stub, $stub),)*)?
            $($($crate::boundary::table::export!($library, Stub, $empty),)*)?
            $($($crate::boundary::table::export!($library, $second_status, $second),)*)?
        ];
    };
}

macro_rules! rules {
    ($library:ident) => {
        &$crate::boundary::guard::Rules::for_library($crate::boundary::library::Library::$library)
    };
    ($library:ident $rules:path) => {
        &$rules
    };
}

macro_rules! export {
    ($library:ident, $status:ident, $name:ident) => {
        $crate::boundary::table::Export {
            name: stringify!($name),
            library: $crate::boundary::library::Library::$library,
            status: $crate::boundary::table::Status::$status,
            address: $crate::boundary::table::Address($name as *const ()),
        }
    };
}

pub(crate) use {export, exports, rules};
