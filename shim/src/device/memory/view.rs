//! Resource views: an array's texels in another format, and some of its levels or layers, for a texture object.

use ptx::{Component, Texture};

/// What is seen of a resource: the first 48 bytes of `cudaResourceViewDesc` and `CUDA_RESOURCE_VIEW_DESC`; behind them all is reserved.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    format: u32,
    /// As the resource has them.
    sizes: [usize; 3],
    /// First and last.
    levels: [u32; 2],
    layers: [u32; 2],
}

const _: () = assert!(size_of::<View>() == 48 && std::mem::offset_of!(View, levels) == 32);

/// `cudaResViewFormatUnsignedBlockCompressed1`, and all formats from there on.
const COMPRESSED: u32 = 0x19;

/// In the order of `cudaResourceViewFormat`, each with 1, 2 and 4 channels.
const COMPONENTS: [Component; 8] = [
    Component::U8,
    Component::S8,
    Component::U16,
    Component::S16,
    Component::U32,
    Component::S32,
    Component::F16,
    Component::F32,
];

/// Why a view cannot be had.
pub(super) enum Refusal {
    Invalid,
    /// It is not simulated; what it is.
    Gap(&'static str),
}

impl View {
    /// What a texture object reads through the view, from what it would read without it.
    ///
    /// # Errors
    /// As CUDA documents it for `cudaResourceViewDesc`.
    pub(super) fn apply(&self, mut texture: Texture) -> Result<Texture, Refusal> {
        let texels = texture.texels;
        let axes = usize::from(texels.dimensions);
        let sizes: [usize; 3] = std::array::from_fn(|axis| if axis < axes { texels.sizes[axis] as usize } else { 0 });
        let sizes = if texels.layers > 0 { [sizes[0], sizes[1], texels.layers as usize] } else { sizes };
        if self.format >= COMPRESSED {
            return Err(Refusal::Gap("with a view of a compressed format"));
        }
        let levels = texture.mipmap.map_or(1, |mipmap| mipmap.levels);
        let ([first, last], [first_layer, last_layer]) = (self.levels, self.layers);
        if self.sizes != sizes
            || first > last
            || last >= levels
            || first_layer > last_layer
            || last_layer >= texels.layers.max(1)
        {
            return Err(Refusal::Invalid);
        }
        if self.format > 0 {
            let number = self.format as usize - 1;
            let viewed = ptx::Texels { component: COMPONENTS[number / 3], channels: [1, 2, 4][number % 3], ..texels };
            if viewed.texel_bytes() != texels.texel_bytes() {
                return Err(Refusal::Invalid);
            }
            texture.texels = viewed;
        }
        texture.texels = texture.texels.level(first);
        if let Some(mipmap) = &mut texture.mipmap {
            mipmap.levels = last - first + 1;
        }
        let layers = last_layer - first_layer + 1;
        if texels.layers > 0 && layers != texels.layers {
            if texture.mipmap.is_some() {
                return Err(Refusal::Gap("with a view of some layers of a mipmapped array"));
            }
            if texels.is_cube && !(first_layer.is_multiple_of(6) && layers.is_multiple_of(6)) {
                return Err(Refusal::Gap("with a view of some faces of a cube"));
            }
            texture.texels.address += u64::from(first_layer) * texels.slice;
            texture.texels.layers = layers;
        }
        Ok(texture)
    }
}
