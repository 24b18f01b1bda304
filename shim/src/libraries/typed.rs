//! `typed!`: a function that a library has once for each type of numbers stands once, beside the names of its C functions.

/// Declares bodies, generic over the type of numbers, and the C functions that call them. Pointers are `usize`; `EXPORTS` lists the
/// functions.
///
/// ```text
/// typed! {
///     library Cusolver;
///     fn potrf[T](handle: usize, n: c_int, ...) { ... }
///     cusolverDnSpotrf cusolverDnDpotrf cusolverDnCpotrf cusolverDnZpotrf;
///     plain { fn cusolverDnXpotrf(handle: usize, ...) = xpotrf; }
/// }
/// ```
macro_rules! typed {
    (
        library $library:ident;
        $(
            $(#[$attribute:meta])*
            fn $body:ident[$number:ident]$arguments:tt $code:block
            $single:ident $double:ident $complex:ident $double_complex:ident;
        )*
        $(plain { $($plain:tt)* })?
    ) => {
        $(
            $(#[$attribute])*
            fn $body<$number: $crate::libraries::cublas::number::Number>$arguments -> $crate::libraries::objects::Answer $code
        )*

        $crate::boundary::table::exports! {
            library $library;
            real {
                $(
                    fn $single $arguments = $body::<f32>;
                    fn $double $arguments = $body::<f64>;
                    fn $complex $arguments = $body::<num_complex::Complex<f32>>;
                    fn $double_complex $arguments = $body::<num_complex::Complex<f64>>;
                )*
                $($($plain)*)?
            }
        }
    };
}

pub(crate) use typed;
