//! The scalars of BLAS's rotations: `rotg` and `rotmg`, in the formulas of the reference BLAS.

use super::element::Wide;
use super::job::Job;
use super::level1::Scalar;
use crate::libraries::objects::Answer;

/// (a, b) becomes (r, z); the cosine and sine that do it.
pub(super) fn rotg(handle: usize, a: Scalar, b: Scalar, c: Scalar, s: Scalar) -> Answer {
    let mut job = Job::begin(handle)?;
    let is_complex = a.1.is_complex();
    let (a, b) = (job.result(a.0, a.1, 1, true)?, job.result(b.0, b.1, 1, true)?);
    let (c, s) = (job.result(c.0, c.1, 1, false)?, job.result(s.0, s.1, 1, false)?);
    job.run(move |_, _| {
        // SAFETY: the job's results are in memory, or C vouches for them.
        unsafe {
            let before = (a.read(), b.read());
            if is_complex {
                let (r, cosine, sine) = complex_rotation(before.0, before.1);
                a.write(0, r);
                c.write(0, Wide::new(cosine, 0.0));
                s.write(0, sine);
            } else {
                let [r, z, cosine, sine] = real_rotation(before.0.re, before.1.re);
                for (place, value) in [(a, r), (b, z), (c, cosine), (s, sine)] {
                    place.write(0, Wide::new(value, 0.0));
                }
            }
        }
    })
}

/// r, z, c and s.
fn real_rotation(a: f64, b: f64) -> [f64; 4] {
    let larger = if a.abs() > b.abs() { a } else { b };
    if a == 0.0 && b == 0.0 {
        return [0.0, 0.0, 1.0, 0.0];
    }
    let r = a.hypot(b).copysign(larger);
    let (c, s) = (a / r, b / r);
    let z = if a.abs() > b.abs() {
        s
    } else if c != 0.0 {
        1.0 / c
    } else {
        1.0
    };
    [r, z, c, s]
}

/// r, c and s.
fn complex_rotation(a: Wide, b: Wide) -> (Wide, f64, Wide) {
    let length = a.norm();
    if length == 0.0 {
        return (b, 0.0, Wide::new(1.0, 0.0));
    }
    let norm = length.hypot(b.norm());
    let direction = a / length;
    (direction * norm, length / norm, direction * b.conj() / norm)
}

/// Makes the parameters of a modified rotation, which takes (sqrt(d1) x1, sqrt(d2) y1) to (r, 0).
pub(super) fn rotmg(
    handle: usize,
    is_single: bool,
    [d1, d2, x1]: [Scalar; 3],
    y1: Scalar,
    parameters: Scalar,
) -> Answer {
    let mut job = Job::begin(handle)?;
    let [d1, d2, x1] =
        [job.result(d1.0, d1.1, 1, true)?, job.result(d2.0, d2.1, 1, true)?, job.result(x1.0, x1.1, 1, true)?];
    let y1 = job.scale(y1.0, y1.1)?;
    let parameters = job.result(parameters.0, parameters.1, 5, false)?;
    job.run(move |_, _| {
        // SAFETY: the job's results are in memory, or C vouches for them.
        unsafe {
            let made = modified_rotation(d1.read().re, d2.read().re, x1.read().re, y1.get(0).re, is_single);
            for (place, value) in [d1, d2, x1].into_iter().zip(made.changed) {
                place.write(0, Wide::new(value, 0.0));
            }
            parameters.write(0, Wide::new(made.flag, 0.0));
            for (index, value) in made.h.into_iter().enumerate() {
                // What the flag implies is not written.
                if let Some(value) = value {
                    parameters.write(index + 1, Wide::new(value, 0.0));
                }
            }
        }
    })
}

#[derive(Debug, PartialEq)]
struct Modified {
    /// The new d1, d2 and x1.
    changed: [f64; 3],
    flag: f64,
    /// h11, h21, h12, h22, if not implied by the flag.
    h: [Option<f64>; 4],
}

/// After Lawson, Hanson, Kincaid and Krogh, "Basic Linear Algebra Subprograms for Fortran Usage" (1979), and the reference BLAS.
fn modified_rotation(mut d1: f64, mut d2: f64, mut x1: f64, y1: f64, is_single: bool) -> Modified {
    const GAMMA: f64 = 4096.0;
    let (largest, smallest) = if is_single { (1.67772e7, 5.96046e-8) } else { (16_777_216.0, 5.960_464_5e-8) };
    let zero = Modified { changed: [0.0; 3], flag: -1.0, h: [Some(0.0); 4] };
    if d1 < 0.0 {
        return zero;
    }
    let p2 = d2 * y1;
    if p2 == 0.0 {
        return Modified { changed: [d1, d2, x1], flag: -2.0, h: [None; 4] };
    }
    let p1 = d1 * x1;
    let (q1, q2) = (p1 * x1, p2 * y1);
    let (mut flag, mut h);
    if q1.abs() > q2.abs() {
        let (h21, h12) = (-y1 / x1, p2 / p1);
        let u = 1.0 - h12 * h21;
        if u <= 0.0 {
            return zero;
        }
        (flag, h) = (0.0, [1.0, h21, h12, 1.0]);
        (d1, d2, x1) = (d1 / u, d2 / u, x1 * u);
    } else {
        if q2 < 0.0 {
            return zero;
        }
        let (h11, h22) = (p1 / p2, x1 / y1);
        let u = 1.0 + h11 * h22;
        (flag, h) = (1.0, [h11, -1.0, 1.0, h22]);
        (d1, d2, x1) = (d2 / u, d1 / u, y1 * u);
    }
    // Keeps the factors in range, by powers of two.
    while d1 != 0.0 && d1.is_finite() && (d1 <= smallest || d1 >= largest) {
        flag = -1.0;
        let is_small = d1 <= smallest;
        let by = if is_small { 1.0 / GAMMA } else { GAMMA };
        d1 /= by * by;
        (x1, h[0], h[2]) = (x1 * by, h[0] * by, h[2] * by);
    }
    while d2 != 0.0 && d2.is_finite() && (d2.abs() <= smallest || d2.abs() >= largest) {
        flag = -1.0;
        let by = if d2.abs() <= smallest { 1.0 / GAMMA } else { GAMMA };
        d2 /= by * by;
        (h[1], h[3]) = (h[1] * by, h[3] * by);
    }
    let [h11, h21, h12, h22] = h.map(Some);
    let h = match flag {
        0.0 => [None, h21, h12, None],
        1.0 => [h11, None, None, h22],
        _ => [h11, h21, h12, h22],
    };
    Modified { changed: [d1, d2, x1], flag, h }
}
