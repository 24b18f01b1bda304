//! cuBLASLt's epilogues: scales, bias, activations and their gradients, and the auxiliary data kept for those.

use super::dense::Dense;
use super::element::{Element, Wide};
use super::job::Job;
use super::number::Number;
use super::operand::{Base, Region, Shape};

/// The operation applied to each sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Activation {
    #[default]
    None,
    Relu,
    /// The tanh approximation.
    Gelu,
}

const ROOT: f64 = 0.797_884_560_802_865_4;

impl Activation {
    fn apply(self, value: f64) -> f64 {
        match self {
            Self::None => value,
            // Not `max`, which would hide a NaN.
            Self::Relu if value < 0.0 => 0.0,
            Self::Relu => value,
            Self::Gelu => 0.5 * value * (1.0 + (ROOT * (value + 0.044_715 * value.powi(3))).tanh()),
        }
    }

    /// The derivative of GELU.
    fn slope(value: f64) -> f64 {
        let tanh = (ROOT * (value + 0.044_715 * value.powi(3))).tanh();
        0.5 * (1.0 + tanh) + 0.5 * value * (1.0 - tanh * tanh) * ROOT * (1.0 + 3.0 * 0.044_715 * value * value)
    }
}

/// A second matrix of D's size: the input of the activation, or for ReLU a bit per element that is set if the element
/// is above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Auxiliary {
    pub(crate) address: usize,
    /// Element type of the matrix; `None` for bits.
    pub(crate) element: Option<Element>,
    /// Elements, or bits.
    pub(crate) leading: usize,
    /// Elements, or bits, from one problem to the next.
    pub(crate) stride: i64,
}

/// The terms summed for the gradient of a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GradientOf {
    /// The rows of D.
    D,
    /// The rows of op(A).
    A,
    /// The columns of op(B).
    B,
}

/// All of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Epilogue {
    pub(crate) activation: Activation,
    /// Whether the activation's gradient is computed, with the auxiliary matrix of the forward product.
    pub(crate) backward: bool,
    /// One value for each row of D, added before the activation.
    pub(crate) bias: Option<(usize, Element)>,
    pub(crate) gradient: Option<(usize, Element, GradientOf)>,
    pub(crate) auxiliary: Option<Auxiliary>,
    /// Addresses of f32 factors of A, B, C and D, in device memory.
    pub(crate) scales: [Option<usize>; 4],
    /// Address of an f32 that receives the largest |D| before scaling and rounding.
    pub(crate) largest: Option<usize>,
}

impl Epilogue {
    /// Whether it does nothing.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Adds its arguments, in the order expected by [`Epilogue::begin`].
    pub(crate) fn arguments(&self, job: &mut Job, [m, n, _]: [usize; 3]) {
        let vector = |n| Shape::Vector { n, step: 1 };
        if let Some((address, element)) = self.bias {
            job.input(address, element, vector(m));
        }
        if let Some((address, element, of)) = self.gradient {
            let count = if of == GradientOf::B { n } else { m };
            job.push(Base::At { address, stride: 0 }, element, vector(count), false, true);
        }
        if let Some(auxiliary) = self.auxiliary {
            let Auxiliary { address, leading, stride, .. } = auxiliary;
            let (element, rows, leading, stride) = match auxiliary.element {
                Some(element) => (element, m, leading, stride),
                None => (Element::I8, m.div_ceil(8), leading / 8, stride / 8),
            };
            let shape = Shape::Full { rows, columns: n, leading };
            job.push(Base::At { address, stride }, element, shape, self.backward, !self.backward);
        }
        for address in self.scales.into_iter().flatten() {
            job.input(address, Element::F32, vector(1));
        }
        if let Some(address) = self.largest {
            job.push(Base::At { address, stride: 0 }, Element::F32, vector(1), false, true);
        }
    }

    /// Starts it for one problem.
    ///
    /// # Safety
    /// The arguments are in memory.
    pub(crate) unsafe fn begin<'a>(&'a self, [m, n, _]: [usize; 3], arguments: &'a [Region]) -> Running<'a> {
        let mut arguments = arguments.iter();
        let mut next = |is_there: bool| is_there.then(|| arguments.next()).flatten();
        let bias = next(self.bias.is_some());
        let gradient = next(self.gradient.is_some());
        let auxiliary = next(self.auxiliary.is_some());
        // SAFETY: as the caller promises.
        let [a, b, c, d] =
            self.scales.map(|scale| next(scale.is_some()).map_or(1.0, |place| unsafe { place.read() }.re));
        let largest = next(self.largest.is_some());
        let count = match self.gradient {
            Some((_, _, GradientOf::B)) => n,
            Some(_) => m,
            None => 0,
        };
        Running {
            epilogue: self,
            bias,
            gradient,
            auxiliary,
            sums: a * b,
            c,
            d,
            largest,
            top: 0.0,
            totals: vec![0.0; count],
        }
    }
}

/// A running epilogue.
pub(crate) struct Running<'a> {
    epilogue: &'a Epilogue,
    bias: Option<&'a Region>,
    gradient: Option<&'a Region>,
    auxiliary: Option<&'a Region>,
    /// Factors of the sums, of C and of D.
    sums: f64,
    c: f64,
    d: f64,
    largest: Option<&'a Region>,
    top: f64,
    totals: Vec<f64>,
}

impl Running<'_> {
    /// Adds up the sums of A or B for a gradient.
    pub(crate) fn reduce_inputs<T: Number>(&mut self, a: &Dense<T>, b: &Dense<T>) {
        match self.epilogue.gradient {
            Some((_, _, GradientOf::A)) => {
                for column in 0..a.columns {
                    for (total, value) in self.totals.iter_mut().zip(a.column(column)) {
                        *total += value.wide().re;
                    }
                }
            }
            Some((_, _, GradientOf::B)) => {
                for (column, total) in self.totals.iter_mut().enumerate() {
                    *total = b.column(column).iter().map(|value| value.wide().re).sum();
                }
            }
            _ => {}
        }
    }

    pub(crate) fn scaled(&self, sum: Wide) -> Wide {
        sum * self.sums
    }

    pub(crate) fn of_c(&self, value: Wide) -> Wide {
        value * self.c
    }

    /// The value written for a sum.
    ///
    /// # Safety
    /// The arguments are in memory.
    pub(crate) unsafe fn finish(&mut self, row: usize, column: usize, value: f64) -> f64 {
        let Epilogue { activation, backward, .. } = *self.epilogue;
        // SAFETY: as the caller promises, here and below.
        let mut value = value + self.bias.map_or(0.0, |bias| unsafe { bias.read_at((row, 0)) }.re);
        let is_bits = self.epilogue.auxiliary.is_some_and(|auxiliary| auxiliary.element.is_none());
        match self.auxiliary {
            Some(place) if is_bits => {
                let byte = (row / 8, column);
                // SAFETY: as above.
                let bits = unsafe { place.read_at(byte) }.re as i8 as u8;
                let bit = 1 << (row % 8);
                if backward {
                    value = if bits & bit == 0 { 0.0 } else { value };
                } else {
                    let bits = if value > 0.0 { bits | bit } else { bits & !bit };
                    // SAFETY: as above.
                    unsafe { place.write_at(byte, Wide::new(f64::from(bits as i8), 0.0)) };
                }
            }
            // SAFETY: as above.
            Some(place) if backward => value *= Activation::slope(unsafe { place.read_at((row, column)) }.re),
            // SAFETY: as above.
            Some(place) => unsafe { place.write_at((row, column), Wide::new(value, 0.0)) },
            None => {}
        }
        if !backward {
            value = activation.apply(value);
        }
        if self.epilogue.gradient.is_some_and(|(_, _, of)| of == GradientOf::D) {
            self.totals[row] += value;
        }
        self.top = self.top.max(value.abs());
        value * self.d
    }

    /// Writes the sums.
    ///
    /// # Safety
    /// The arguments are in memory.
    pub(crate) unsafe fn end(self) {
        if let Some(place) = self.gradient {
            for (index, total) in self.totals.iter().enumerate() {
                // SAFETY: as the caller promises.
                unsafe { place.write(index, Wide::new(*total, 0.0)) };
            }
        }
        if let Some(place) = self.largest {
            // SAFETY: as the caller promises.
            unsafe { place.write(0, Wide::new(self.top, 0.0)) };
        }
    }
}
