//! Singular values, by whichever function: `gesvd`, `gesvdj`, `gesvda`.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::{c_char, c_int};

use abi::argument::Out;
use num_complex::Complex;

use super::call::{Call, Use, flag, single, size, strided, type_of, work, work_bytes};
use super::handle::REFUSALS;
use crate::libraries::cublas::dense::{Dense, Transpose};
use crate::libraries::cublas::element::Element;
use crate::libraries::cublas::number::{Number, with_number};
use crate::libraries::cublas::operand::{Base, Region};
use crate::libraries::lapack::memory::{store, store_count, store_real};
use crate::libraries::lapack::singular::{Columns, Singular, decompose as singular};
use crate::libraries::objects::{Answer, Code};
use crate::libraries::typed::typed;

/// A matrix in C: its location and its leading dimension.
type Argument = (Base, i64);

/// What a call wants, and where.
struct Wanted {
    sizes: [i64; 2],
    a: Argument,
    /// Where singular values go, and how many numbers later those of the next problem.
    values: (usize, i64),
    /// How many of them; as many as there are if none.
    rank: Option<usize>,
    u: (Columns, Argument),
    v: (Columns, Argument),
    /// Whether V^H is wanted, not V.
    is_v_turned: bool,
    info: usize,
    batch: i64,
}

/// How many columns a basis of vectors with this many numbers has.
fn count(columns: Columns, size: usize, rank: usize) -> usize {
    match columns {
        Columns::None => 0,
        Columns::Thin => rank,
        Columns::All => size,
    }
}

fn decompose<T: Number>(mut call: Call, wanted: &Wanted, residual: Option<Region>) -> Answer {
    let [m, n] = [size(wanted.sizes[0])?, size(wanted.sizes[1])?];
    let rank = wanted.rank.unwrap_or(m.min(n));
    let ((columns_u, u), (columns_v, v), turned) = (wanted.u, wanted.v, wanted.is_v_turned);
    if rank > m.min(n) {
        return REFUSALS.value();
    }
    call.batch(wanted.batch)?;
    // What becomes of A is not documented, unless vectors go there.
    call.matrix::<T>(wanted.a.0, [m, n], wanted.a.1, Use::Changed)?;
    call.real_vector(wanted.values, T::REAL, rank);
    call.info(wanted.info)?;
    let (kept_u, kept_v) = (count(columns_u, m, rank), count(columns_v, n, rank));
    if columns_u != Columns::None {
        call.matrix::<T>(u.0, [m, kept_u], u.1, Use::Written)?;
    }
    if columns_v != Columns::None {
        call.matrix::<T>(v.0, if turned { [kept_v, n] } else { [n, kept_v] }, v.1, Use::Written)?;
    }
    call.run(move |batch, at| {
        let kept = [rank, kept_u, kept_v];
        // SAFETY: the arguments are in memory.
        unsafe {
            let left = if T::ELEMENT.is_complex() {
                decompose_in::<Complex<f64>>(at, [columns_u, columns_v], kept, turned)
            } else {
                decompose_in::<f64>(at, [columns_u, columns_v], kept, turned)
            };
            if let Some(place) = residual {
                place.write(batch, left.into());
            }
        }
    })
}

/// Returns the norm of what the singular values that are kept leave out.
///
/// # Safety
/// The arguments are in memory.
unsafe fn decompose_in<T: Number>(
    places: &[Region],
    [u, v]: [Columns; 2],
    [rank, kept_u, kept_v]: [usize; 3],
    turned: bool,
) -> f64 {
    // SAFETY: passed on.
    unsafe {
        let found: Singular<T> = singular(Dense::<T>::load(&places[0], Transpose::No), u, v);
        store_real(&places[1], &found.values[..rank]);
        store_count(&places[2], 0, found.info);
        let mut rest = places[3..].iter();
        if let Some((u, place)) = found.u.and_then(|u| Some((u, rest.next()?))) {
            store(place, u.columns(0..kept_u));
        }
        if let Some((v, place)) = found.v.and_then(|v| Some((v, rest.next()?))) {
            store(place, v.columns(0..kept_v).after(if turned { Transpose::Conjugate } else { Transpose::No }));
        }
        found.values[rank..].iter().map(|value| value * value).sum::<f64>().sqrt()
    }
}

/// `gesvd`: letters say which vectors, and V^H is wanted. Of more columns than rows, cuSOLVER decomposes none.
fn by_letters<T: Number>(
    handle: usize,
    [letter_u, letter_v]: [c_char; 2],
    sizes: [i64; 2],
    a: Argument,
    values: usize,
    u: Argument,
    v: Argument,
    info: usize,
) -> Answer {
    let call = Call::begin(handle)?;
    let columns = |letter: c_char| match letter as u8 {
        b'N' => Ok(Columns::None),
        b'S' | b'O' => Ok(Columns::Thin),
        b'A' => Ok(Columns::All),
        _ => Err(Code(REFUSALS.value)),
    };
    let is_over = |letter: c_char| letter as u8 == b'O';
    if sizes[0] < sizes[1] || (is_over(letter_u) && is_over(letter_v)) {
        return REFUSALS.value();
    }
    let wanted = Wanted {
        sizes,
        a,
        values: (values, 0),
        rank: None,
        u: (columns(letter_u)?, if is_over(letter_u) { a } else { u }),
        v: (columns(letter_v)?, if is_over(letter_v) { a } else { v }),
        is_v_turned: true,
        info,
        batch: 1,
    };
    decompose::<T>(call, &wanted, None)
}

/// Thin or all vectors, or none, as modes say.
fn columns(jobz: c_int, is_thin: c_int) -> Answer<Columns> {
    let thin = if flag(is_thin)? { Columns::Thin } else { Columns::All };
    Ok(if flag(jobz)? { thin } else { Columns::None })
}

/// `gesvdj` and `gesvdp`: V is wanted.
fn by_modes<T: Number>(
    handle: usize,
    [jobz, is_thin]: [c_int; 2],
    sizes: [i64; 2],
    a: (usize, i64),
    values: usize,
    u: (usize, i64),
    v: (usize, i64),
    info: usize,
) -> Answer {
    let columns = columns(jobz, is_thin)?;
    let [a, u, v] = [a, u, v].map(|(address, leading)| (single(address), leading));
    let (u, v) = ((columns, u), (columns, v));
    let wanted = Wanted { sizes, a, values: (values, 0), rank: None, u, v, is_v_turned: false, info, batch: 1 };
    decompose::<T>(Call::begin(handle)?, &wanted, None)
}

typed! {
    library Cusolver;

    fn gesvd_work[T](handle: usize, m: c_int, n: c_int, out: Out<c_int>) {
        if m < n {
            return REFUSALS.value();
        }
        work(handle, [m, n], out)
    }
    cusolverDnSgesvd_bufferSize cusolverDnDgesvd_bufferSize cusolverDnCgesvd_bufferSize cusolverDnZgesvd_bufferSize;

    fn gesvd[T](handle: usize, letter_u: c_char, letter_v: c_char, m: c_int, n: c_int, a: usize, lda: c_int, values: usize, u: usize, ldu: c_int, v: usize, ldv: c_int, _work: usize, _size: c_int, _real_work: usize, info: usize) {
        let [a, u, v] = [(a, lda), (u, ldu), (v, ldv)].map(|(address, leading)| (single(address), leading.into()));
        by_letters::<T>(handle, [letter_u, letter_v], [m.into(), n.into()], a, values, u, v, info)
    }
    cusolverDnSgesvd cusolverDnDgesvd cusolverDnCgesvd cusolverDnZgesvd;

    fn gesvdj_work[T](handle: usize, _jobz: c_int, _is_thin: c_int, m: c_int, n: c_int, _a: usize, _lda: c_int, _values: usize, _u: usize, _ldu: c_int, _v: usize, _ldv: c_int, out: Out<c_int>, _parameters: usize) {
        work(handle, [m, n], out)
    }
    cusolverDnSgesvdj_bufferSize cusolverDnDgesvdj_bufferSize cusolverDnCgesvdj_bufferSize cusolverDnZgesvdj_bufferSize;

    fn gesvdj[T](handle: usize, jobz: c_int, is_thin: c_int, m: c_int, n: c_int, a: usize, lda: c_int, values: usize, u: usize, ldu: c_int, v: usize, ldv: c_int, _work: usize, _size: c_int, info: usize, _parameters: usize) {
        by_modes::<T>(handle, [jobz, is_thin], [m.into(), n.into()], (a, lda.into()), values, (u, ldu.into()), (v, ldv.into()), info)
    }
    cusolverDnSgesvdj cusolverDnDgesvdj cusolverDnCgesvdj cusolverDnZgesvdj;

    fn gesvdj_batched_work[T](handle: usize, _jobz: c_int, m: c_int, n: c_int, _a: usize, _lda: c_int, _values: usize, _u: usize, _ldu: c_int, _v: usize, _ldv: c_int, out: Out<c_int>, _parameters: usize, batch: c_int) {
        work(handle, [i64::from(m) * i64::from(n), batch.into()], out)
    }
    cusolverDnSgesvdjBatched_bufferSize cusolverDnDgesvdjBatched_bufferSize cusolverDnCgesvdjBatched_bufferSize cusolverDnZgesvdjBatched_bufferSize;

    /// Matrices of up to 32 rows and columns, one after the other.
    fn gesvdj_batched[T](handle: usize, jobz: c_int, m: c_int, n: c_int, a: usize, lda: c_int, values: usize, u: usize, ldu: c_int, v: usize, ldv: c_int, _work: usize, _size: c_int, info: usize, _parameters: usize, batch: c_int) {
        if m > 32 || n > 32 {
            return REFUSALS.value();
        }
        let columns = columns(jobz, 0)?;
        let packed = |address: usize, leading: c_int, columns: c_int| {
            (strided(address, i64::from(leading) * i64::from(columns)), i64::from(leading))
        };
        let wanted = Wanted {
            sizes: [m.into(), n.into()],
            a: packed(a, lda, n),
            values: (values, m.min(n).into()),
            rank: None,
            u: (columns, packed(u, ldu, m)),
            v: (columns, packed(v, ldv, n)),
            is_v_turned: false,
            info,
            batch: batch.into(),
        };
        decompose::<T>(Call::begin(handle)?, &wanted, None)
    }
    cusolverDnSgesvdjBatched cusolverDnDgesvdjBatched cusolverDnCgesvdjBatched cusolverDnZgesvdjBatched;

    fn gesvda_work[T](handle: usize, _jobz: c_int, _rank: c_int, m: c_int, n: c_int, _a: usize, _lda: c_int, _stride: i64, _values: usize, _values_stride: i64, _u: usize, _ldu: c_int, _u_stride: i64, _v: usize, _ldv: c_int, _v_stride: i64, out: Out<c_int>, batch: c_int) {
        work(handle, [i64::from(m) * i64::from(n), batch.into()], out)
    }
    cusolverDnSgesvdaStridedBatched_bufferSize cusolverDnDgesvdaStridedBatched_bufferSize cusolverDnCgesvdaStridedBatched_bufferSize cusolverDnZgesvdaStridedBatched_bufferSize;

    /// The largest singular values of each matrix, and the norm of the rest in host memory, if that is wanted.
    fn gesvda[T](handle: usize, jobz: c_int, rank: c_int, m: c_int, n: c_int, a: usize, lda: c_int, stride: i64, values: usize, values_stride: i64, u: usize, ldu: c_int, u_stride: i64, v: usize, ldv: c_int, v_stride: i64, _work: usize, _size: c_int, info: usize, residual: usize, batch: c_int) {
        let mut call = Call::begin(handle)?;
        let columns = columns(jobz, 1)?;
        let wanted = Wanted {
            sizes: [m.into(), n.into()],
            a: (strided(a, stride), lda.into()),
            values: (values, values_stride),
            rank: Some(size(rank.into())?),
            u: (columns, (strided(u, u_stride), ldu.into())),
            v: (columns, (strided(v, v_stride), ldv.into())),
            is_v_turned: false,
            info,
            batch: batch.into(),
        };
        let residual = if residual == 0 { None } else { Some(call.on_host(residual, Element::F64, size(batch.into())?)?) };
        decompose::<T>(call, &wanted, residual)
    }
    cusolverDnSgesvdaStridedBatched cusolverDnDgesvdaStridedBatched cusolverDnCgesvdaStridedBatched cusolverDnZgesvdaStridedBatched;

    plain {
        fn cusolverDnXgesvd_bufferSize(handle: usize, parameters: usize, letter_u: c_char, letter_v: c_char, m: i64, n: i64, kind: c_int, a: usize, lda: i64, kind_values: c_int, values: usize, kind_u: c_int, u: usize, ldu: i64, kind_v: c_int, v: usize, ldv: i64, computed: c_int, device: Out<usize>, host: Out<usize>) =
            |handle, _, _, _, m, n, kind, _, _, kind_values, _, kind_u, _, _, kind_v, _, _, computed, device, host| work_bytes(handle, type_of(kind, &[kind_u, kind_v, computed], Some(kind_values))?, [m, n], device, host);
        fn cusolverDnXgesvd(handle: usize, parameters: usize, letter_u: c_char, letter_v: c_char, m: i64, n: i64, kind: c_int, a: usize, lda: i64, kind_values: c_int, values: usize, kind_u: c_int, u: usize, ldu: i64, kind_v: c_int, v: usize, ldv: i64, computed: c_int, device: usize, device_bytes: usize, host: usize, host_bytes: usize, info: usize) =
            |handle, _, letter_u, letter_v, m, n, kind, a, lda, kind_values, values, kind_u, u, ldu, kind_v, v, ldv, computed, _, _, _, _, info| with_number!(type_of(kind, &[kind_u, kind_v, computed], Some(kind_values))?, T => by_letters::<T>(handle, [letter_u, letter_v], [m, n], (single(a), lda), values, (single(u), ldu), (single(v), ldv), info));
    }
}
