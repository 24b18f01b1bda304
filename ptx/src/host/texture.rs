//! Textures and surfaces: how an object describes its texels, and the arithmetic of a fetch (CUDA Programming Guide,
//! "Texture Fetching").

/// The type of a texel's component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// 8 bits, unsigned.
    U8,
    /// 8 bits, signed.
    S8,
    /// 16 bits, unsigned.
    U16,
    /// 16 bits, signed.
    S16,
    /// 32 bits, unsigned.
    U32,
    /// 32 bits, signed.
    S32,
    /// IEEE half precision; always read as f32.
    F16,
    /// Single precision.
    F32,
}

impl Component {
    /// Bytes of one component: 1, 2 or 4.
    pub fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::S8 => 1,
            Self::U16 | Self::S16 | Self::F16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
        }
    }

    /// Whether it is F16 or F32.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32)
    }

    /// Whether it is an integer that a fetch can turn into a number of \[0, 1\] or \[-1, 1\].
    pub fn can_be_promoted(self) -> bool {
        !self.is_float() && self.bytes() < 4
    }
}

/// The texels of a CUDA array or of linear memory, which are in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texels {
    /// Address of the first.
    pub address: u64,
    /// Dimensions, 1 to 3.
    pub dimensions: u8,
    /// Texels by dimension, the innermost first; 1 for dimensions that it does not have.
    pub sizes: [u32; 3],
    /// Bytes from a row to the next.
    pub pitch: u64,
    /// Bytes from a slice, a layer or a face to the next.
    pub slice: u64,
    /// Layers of one or two dimensions, or faces of cubes; 0 if there are none.
    pub layers: u32,
    /// Whether the layers are faces, six for each cube.
    pub is_cube: bool,
    /// The type of a texel's components.
    pub component: Component,
    /// How many components a texel has: 1, 2 or 4.
    pub channels: u8,
}

impl Texels {
    /// Bytes of a texel.
    pub fn texel_bytes(&self) -> u32 {
        u32::from(self.channels) * self.component.bytes()
    }

    /// Bytes of a row's texels.
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.sizes[0]) * u64::from(self.texel_bytes())
    }

    /// A level of the mipmapped array of which this is level 0. Each level has half the size of the previous one, rounded down,
    /// and as many layers. Rows, slices and levels follow each other without gaps.
    #[must_use]
    pub fn level(mut self, level: u32) -> Self {
        for _ in 0..level {
            self.address += self.slice * u64::from(self.sizes[2].max(self.layers));
            self.sizes = self.sizes.map(|size| (size / 2).max(1));
            self.pitch = self.row_bytes();
            self.slice = self.pitch * u64::from(self.sizes[1]);
        }
        self
    }

    /// Bytes from the first texel to the end of the last.
    pub fn span(&self) -> u64 {
        u64::from(self.sizes[2].max(self.layers) - 1) * self.slice
            + u64::from(self.sizes[1] - 1) * self.pitch
            + self.row_bytes()
    }
}

/// What replaces texels outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// The texture again; only for normalized coordinates.
    Wrap,
    /// The nearest texel.
    Clamp,
    /// The mirrored texture; only for normalized coordinates.
    Mirror,
    /// The border color.
    Border,
}

/// The levels of a mipmapped texture, and which of them are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mipmap {
    /// How many levels there are, at least 1, as [`Texels::level`] has them.
    pub levels: u32,
    /// Whether two levels are filtered linearly; else the nearest one is taken.
    pub is_filtered: bool,
    /// Added to the level of detail that a fetch asks for.
    pub bias: f32,
    /// The lowest and the highest level of detail.
    pub clamp: [f32; 2],
}

/// A texture object: texels and how they are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Texture {
    /// The texels; those of level 0 if the array is mipmapped.
    pub texels: Texels,
    /// The levels of a mipmapped array.
    pub mipmap: Option<Mipmap>,
    /// What replaces texels outside, by dimension. Wrap and mirror mean clamp if coordinates are not normalized.
    pub addressing: [Addressing; 3],
    /// Whether texels at coordinates of type f32 are filtered linearly; else the nearest one is taken.
    pub is_filtered: bool,
    /// Whether coordinates go from 0 to 1 instead of from 0 to the size.
    pub is_normalized: bool,
    /// Whether integers of 8 and 16 bits are read as numbers of \[0, 1\] or \[-1, 1\].
    pub promotes: bool,
    /// The border color; for integers, their bits.
    pub border: [f32; 4],
}

/// From here on, coordinates are all alike: far outside.
const FAR: f64 = (1u64 << 40) as f64;

/// Filtering has weights of 9 bits, 8 of them fractional.
const STEPS: f64 = 256.0;

impl Texture {
    /// Whether a fetch gives floating-point numbers.
    pub fn gives_floats(&self) -> bool {
        self.texels.component.is_float() || (self.promotes && self.texels.component.can_be_promoted())
    }

    /// Bytes from the first texel to the end of the last, for all levels.
    pub(crate) fn span(&self) -> u64 {
        let last = self.texels.level(self.mipmap.map_or(0, |mipmap| mipmap.levels.saturating_sub(1)));
        last.address - self.texels.address + last.span()
    }

    /// The level for a level of detail, and the weight of the next level. Without a level of detail, it is level 0, within the
    /// bounds.
    pub(crate) fn level_at(&self, detail: Option<f32>) -> (u32, f64) {
        let Some(Mipmap { levels, is_filtered, bias, clamp: [low, high] }) = self.mipmap else { return (0, 0.0) };
        let detail = detail.map_or(0.0, |detail| detail + bias).max(low).min(high);
        let detail = f64::from(detail).clamp(0.0, f64::from(levels.saturating_sub(1)));
        if !is_filtered || !self.gives_floats() {
            return ((detail + 0.5).floor() as u32, 0.0);
        }
        let fixed = (detail * STEPS + 0.5).floor();
        let level = (fixed / STEPS).floor();
        (level as u32, (fixed - level * STEPS) / STEPS)
    }

    /// The level of detail at which a step in texture coordinates, by the longer of two gradients, is a texel wide (OpenGL 4.6,
    /// 8.14.1, without approximations). Coordinates are normalized.
    pub(crate) fn detail(&self, gradients: [[f32; 3]; 2]) -> f32 {
        let square = |gradient: [f32; 3]| -> f64 {
            let axes = 0..usize::from(self.texels.dimensions);
            axes.map(|axis| (f64::from(gradient[axis]) * f64::from(self.texels.sizes[axis])).powi(2)).sum()
        };
        (gradients.map(square).into_iter().fold(0.0, f64::max).log2() / 2.0) as f32
    }

    /// The texel at integer coordinates. `read` gets a texel's position and returns its bytes, or nothing if it may not be read.
    pub(crate) fn texel_at<R>(&self, at: [i32; 3], read: &mut R) -> Option<[u32; 4]>
    where
        R: FnMut([u32; 3]) -> Option<[u8; 16]>,
    {
        self.texel(std::array::from_fn(|axis| self.place(axis, i64::from(at[axis]))), read)
    }

    /// The value at coordinates of type f32: the nearest texel, or a weighted mean of its neighbors.
    pub(crate) fn fetch<R>(&self, at: [f32; 3], read: &mut R) -> Option<[u32; 4]>
    where
        R: FnMut([u32; 3]) -> Option<[u8; 16]>,
    {
        if !self.is_filtered || !self.gives_floats() {
            return self.nearest_texel(at, read);
        }
        Some(self.mean(at, read)?.map(|sum| (sum as f32).to_bits()))
    }

    /// The value between a level and the next: the weighted mean of the values at these coordinates on both.
    pub(crate) fn between(at_level: [f64; 4], at_next: [f64; 4], weight: f64) -> [u32; 4] {
        let mix = |index: usize| (1.0 - weight) * at_level[index] + weight * at_next[index];
        std::array::from_fn(|index| (mix(index) as f32).to_bits())
    }

    fn nearest_texel<R>(&self, at: [f32; 3], read: &mut R) -> Option<[u32; 4]>
    where
        R: FnMut([u32; 3]) -> Option<[u8; 16]>,
    {
        let dimensions = usize::from(self.texels.dimensions);
        let place = |axis| if axis < dimensions { self.nearest(axis, self.scaled(axis, at[axis])) } else { Some(0) };
        self.texel(std::array::from_fn(place), read)
    }

    /// The value at coordinates of type f32, not rounded, for textures that give floats.
    pub(crate) fn mean<R>(&self, at: [f32; 3], read: &mut R) -> Option<[f64; 4]>
    where
        R: FnMut([u32; 3]) -> Option<[u8; 16]>,
    {
        if !self.is_filtered {
            return Some(self.nearest_texel(at, read)?.map(|word| f64::from(f32::from_bits(word))));
        }
        let dimensions = usize::from(self.texels.dimensions);
        let at: [f64; 3] =
            std::array::from_fn(|axis| if axis < dimensions { self.scaled(axis, at[axis]) } else { 0.0 });
        let mut low = [0; 3];
        let mut weights = [0.0; 3];
        for axis in 0..dimensions {
            let fixed = ((at[axis] - 0.5) * STEPS + 0.5).floor();
            low[axis] = (fixed / STEPS).floor() as i64;
            weights[axis] = (fixed - low[axis] as f64 * STEPS) / STEPS;
        }
        let mut sums = [0.0; 4];
        for corner in 0..1usize << dimensions {
            let upper = |axis: usize| corner >> axis & 1 != 0;
            let weight: f64 =
                (0..dimensions).map(|axis| if upper(axis) { weights[axis] } else { 1.0 - weights[axis] }).product();
            // A texel with weight 0 is not read: it could be infinite.
            if weight == 0.0 {
                continue;
            }
            let texel =
                self.texel(std::array::from_fn(|axis| self.place(axis, low[axis] + i64::from(upper(axis)))), read)?;
            for (sum, value) in sums.iter_mut().zip(texel) {
                *sum += weight * f64::from(f32::from_bits(value));
            }
        }
        Some(sums)
    }

    /// One component of the four texels that linear filtering would take, counter-clockwise from the lower left.
    pub(crate) fn gather<R>(&self, at: [f32; 2], component: usize, read: &mut R) -> Option<[u32; 4]>
    where
        R: FnMut([u32; 3]) -> Option<[u8; 16]>,
    {
        let low = [0, 1].map(|axis| ((self.scaled(axis, at[axis]) - 0.5) * STEPS + 0.5).floor());
        let [x, y] = low.map(|fixed| (fixed / STEPS).floor() as i64);
        let mut all = [0; 4];
        for (value, (right, down)) in all.iter_mut().zip([(0, 1), (1, 1), (1, 0), (0, 0)]) {
            let texel = self.texel([self.place(0, x + right), self.place(1, y + down), Some(0)], read)?;
            *value = texel[component];
        }
        Some(all)
    }

    fn addressing(&self, axis: usize) -> Addressing {
        match self.addressing[axis] {
            Addressing::Wrap | Addressing::Mirror if !self.is_normalized => Addressing::Clamp,
            other => other,
        }
    }

    /// A coordinate in texels.
    fn scaled(&self, axis: usize, coordinate: f32) -> f64 {
        let size = self.texels.sizes[axis] as f32;
        let fraction = coordinate - coordinate.floor();
        let scaled = match self.addressing(axis) {
            _ if !self.is_normalized => coordinate,
            Addressing::Wrap => fraction * size,
            Addressing::Mirror if coordinate.floor() % 2.0 == 0.0 => fraction * size,
            Addressing::Mirror => (1.0 - fraction) * size,
            _ => coordinate * size,
        };
        if scaled.is_nan() { 0.0 } else { f64::from(scaled).clamp(-FAR, FAR) }
    }

    /// The texel in which a coordinate is.
    fn nearest(&self, axis: usize, at: f64) -> Option<u32> {
        let index = at.floor() as i64;
        let last = i64::from(self.texels.sizes[axis]) - 1;
        match self.addressing(axis) {
            // A fraction just below 1 can round up to the size.
            Addressing::Wrap => self.place(axis, index.min(last)),
            _ => self.place(axis, index),
        }
    }

    /// The texel that an index refers to, or none if that is the border.
    fn place(&self, axis: usize, index: i64) -> Option<u32> {
        if axis >= usize::from(self.texels.dimensions) {
            return Some(0);
        }
        let size = i64::from(self.texels.sizes[axis]);
        let place = match self.addressing(axis) {
            Addressing::Wrap => index.rem_euclid(size),
            Addressing::Clamp => index.clamp(0, size - 1),
            Addressing::Mirror => {
                let place = index.rem_euclid(2 * size);
                if place < size { place } else { 2 * size - 1 - place }
            }
            Addressing::Border if (0..size).contains(&index) => index,
            Addressing::Border => return None,
        };
        Some(place as u32)
    }

    /// The four components of a texel as a fetch returns them. Components that it does not have are 0, 0 and 1, as in OpenCL.
    fn texel<R>(&self, at: [Option<u32>; 3], read: &mut R) -> Option<[u32; 4]>
    where
        R: FnMut([u32; 3]) -> Option<[u8; 16]>,
    {
        let one = if self.gives_floats() { 1f32.to_bits() } else { 1 };
        let mut all = [0, 0, 0, one];
        let channels = usize::from(self.texels.channels).min(4);
        let [Some(x), Some(y), Some(z)] = at else {
            for (value, border) in all.iter_mut().zip(self.border).take(channels) {
                *value = border.to_bits();
            }
            return Some(all);
        };
        let bytes = read([x, y, z])?;
        for (index, value) in all.iter_mut().enumerate().take(channels) {
            *value = self.component(&bytes, index);
        }
        Some(all)
    }

    fn component(&self, bytes: &[u8; 16], index: usize) -> u32 {
        let size = self.texels.component.bytes() as usize;
        let mut raw = [0; 4];
        raw[..size].copy_from_slice(&bytes[index * size..(index + 1) * size]);
        let raw = u32::from_le_bytes(raw);
        let promoted = |value: f32, most: f32| (value / most).max(-1.0).to_bits();
        let signed = |bits: u32| (raw << (32 - bits)) as i32 >> (32 - bits);
        match self.texels.component {
            Component::U8 if self.promotes => promoted(raw as f32, 255.0),
            Component::S8 if self.promotes => promoted(signed(8) as f32, 127.0),
            Component::U16 if self.promotes => promoted(raw as f32, 65_535.0),
            Component::S16 if self.promotes => promoted(signed(16) as f32, 32_767.0),
            Component::S8 => signed(8) as u32,
            Component::S16 => signed(16) as u32,
            Component::F16 => half::f16::from_bits(raw as u16).to_f32().to_bits(),
            _ => raw,
        }
    }
}

/// The face of a cube that a direction points to, and where on it, as fractions: the guide's table of cubemap textures.
pub(crate) fn face([x, y, z]: [f32; 3]) -> (u32, [f32; 2]) {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    let (face, major, s, t) = if ax >= ay && ax >= az {
        if x >= 0.0 { (0, ax, -z, -y) } else { (1, ax, z, -y) }
    } else if ay >= az {
        if y >= 0.0 { (2, ay, x, z) } else { (3, ay, x, -z) }
    } else if z >= 0.0 {
        (4, az, x, -y)
    } else {
        (5, az, -x, -y)
    };
    (face, [s, t].map(|value| (value / major + 1.0) / 2.0))
}
