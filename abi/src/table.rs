//! `functions!` declares C functions, each under a [`Guard`](crate::guard::Guard); `exports!` also lists them, as the one table of a
//! library. A name is `real` (implemented), `absent` (the GPU lacks the feature), `refused` (NotSupported on purpose, as hardware
//! may do) or `stub` (not implemented yet).

use crate::library::Library;

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

/// Declares C functions, in sections:
///
/// ```text
/// functions! {
///     guarded by RULES;         // a `guard::Guard`
///     real { fn cuInit(flags: c_uint) = context::init; }           // body: fn(..) -> Result<impl Success, impl Into<u32>>
///     called noted { fn ncclReduce(...) = collective::reduce; }    // same, entered through `noted!`, which keeps the caller
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
/// Bodies may be `unsafe fn`: the C caller is responsible for the pointers.
#[macro_export]
macro_rules! functions {
    (guarded by $guard:expr;) => {};
    (guarded by $guard:expr; real { $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $body:expr;)* } $($rest:tt)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($argument: $type),*) -> core::ffi::c_uint {
                $crate::guard::Guard::call(&$guard, stringify!($name), || {
                    let body: unsafe fn($($type),*) -> _ = $body;
                    // SAFETY: the caller is C and answers for its pointers, as NVIDIA's documentation of the call asks.
                    unsafe { body($($argument),*) }
                })
            }
        )*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (guarded by $guard:expr; called $noted:ident { $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $body:expr;)* } $($rest:tt)*) => {
        #[expect(non_snake_case, reason = "C's names")]
        mod called {
            use super::*;

            $(
                pub(super) extern "C" fn $name($($argument: $type),*) -> core::ffi::c_uint {
                    $crate::guard::Guard::call(&$guard, stringify!($name), || {
                        let body: unsafe fn($($type),*) -> _ = $body;
                        // SAFETY: the caller is C and answers for its pointers, as NVIDIA's documentation of the call asks.
                        unsafe { body($($argument),*) }
                    })
                }
            )*
        }

        $(
            // Any arguments: it goes on as the function of this name above.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub(crate) extern "C" fn $name() {
                $noted!(called::$name);
            }
        )*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (guarded by $guard:expr; bare { $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $body:expr;)* } $($rest:tt)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($argument: $type),*) -> core::ffi::c_uint {
                $crate::guard::Guard::bare(&$guard, stringify!($name), || {
                    let body: unsafe fn($($type),*) -> _ = $body;
                    // SAFETY: the caller is C and answers for its pointers, as NVIDIA's documentation of the call asks.
                    unsafe { body($($argument),*) }
                })
            }
        )*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (guarded by $guard:expr; raw { $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $return:ty)? = $body:expr;)* } $($rest:tt)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($argument: $type),*) $(-> $return)? {
                $crate::guard::Guard::raw(&$guard, stringify!($name), || {
                    let body: unsafe fn($($type),*) $(-> $return)? = $body;
                    // SAFETY: the caller is C and answers for its pointers, as NVIDIA's documentation of the call asks.
                    unsafe { body($($argument),*) }
                })
            }
        )*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (guarded by $guard:expr; absent { $($name:ident)* } $($rest:tt)*) => {
        $($crate::functions! { @missing $guard, Absent, $name })*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (guarded by $guard:expr; refused { $($name:ident)* } $($rest:tt)*) => {
        $($crate::functions! { @missing $guard, Refused, $name })*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (guarded by $guard:expr; stub { $($name:ident)* } $($rest:tt)*) => {
        $($crate::functions! { @missing $guard, Stub, $name })*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (guarded by $guard:expr; empty { $($name:ident)* } $($rest:tt)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name() -> u64 {
                $crate::guard::Guard::missing(&$guard, stringify!($name), $crate::table::Status::Stub);
                0
            }
        )*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (guarded by $guard:expr; second { $($status:ident $name:ident = $first:ident;)* } $($rest:tt)*) => {
        $(
            // Any arguments: it goes on where the other name begins. Bound here (`-Bsymbolic`), not to what a program puts
            // in front of the other name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub(crate) extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {}", sym $first);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {}", sym $first);
            }
        )*
        $crate::functions! { guarded by $guard; $($rest)* }
    };
    (@missing $guard:expr, $status:ident, $name:ident) => {
        // Any arguments, and whatever it returns: the code fills the register.
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name() -> u64 {
            u64::from($crate::guard::Guard::missing(&$guard, stringify!($name), $crate::table::Status::$status))
        }
    };
}

/// Declares C functions like [`functions!`](crate::functions), and lists them in `EXPORTS` of the module that holds the macro:
///
/// ```text
/// exports! {
///     library CudaDriver guarded by RULES;
///     real { ... }
/// }
/// ```
#[macro_export]
macro_rules! exports {
    (library $library:ident guarded by $guard:expr; $($sections:tt)*) => {
        $crate::functions! { guarded by $guard; $($sections)* }
        $crate::exports! { @list $library [] $($sections)* }
    };
    (@list $library:ident [$(($status:ident $name:ident))*]) => {
        /// Every symbol of the library.
        pub(crate) const EXPORTS: &[$crate::table::Export] = &[$($crate::table::Export {
            name: stringify!($name),
            library: $crate::library::Library::$library,
            status: $crate::table::Status::$status,
            address: $crate::table::Address($name as *const ()),
        }),*];
    };
    (@list $library:ident [$($known:tt)*] real { $(fn $name:ident $arguments:tt = $body:expr;)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $((Real $name))*] $($rest)* }
    };
    (@list $library:ident [$($known:tt)*] called $noted:ident { $(fn $name:ident $arguments:tt = $body:expr;)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $((Real $name))*] $($rest)* }
    };
    (@list $library:ident [$($known:tt)*] bare { $(fn $name:ident $arguments:tt = $body:expr;)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $((Real $name))*] $($rest)* }
    };
    (@list $library:ident [$($known:tt)*] raw { $(fn $name:ident $arguments:tt $(-> $return:ty)? = $body:expr;)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $((Real $name))*] $($rest)* }
    };
    (@list $library:ident [$($known:tt)*] absent { $($name:ident)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $((Absent $name))*] $($rest)* }
    };
    (@list $library:ident [$($known:tt)*] refused { $($name:ident)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $((Refused $name))*] $($rest)* }
    };
    (@list $library:ident [$($known:tt)*] stub { $($name:ident)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $((Stub $name))*] $($rest)* }
    };
    (@list $library:ident [$($known:tt)*] empty { $($name:ident)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $((Stub $name))*] $($rest)* }
    };
    (@list $library:ident [$($known:tt)*] second { $($status:ident $name:ident = $first:ident;)* } $($rest:tt)*) => {
        $crate::exports! { @list $library [$($known)* $(($status $name))*] $($rest)* }
    };
}
