//! Tensor maps: the arguments of `cuTensorMapEncodeTiled`, in 128 bytes with a layout specific to this machine.

/// Bytes that mark a tensor map of this machine.
const MAGIC: u32 = 0x7054_6d31;

/// What `tensormap.replace` changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Field {
    GlobalAddress,
    Rank,
    BoxDim,
    GlobalDim,
    GlobalStride,
    ElementStride,
    ElementType,
    SwizzleMode,
    FillMode,
}

/// Fields by the name that the instruction has for them.
pub(crate) static FIELDS: [(&str, Field); 9] = [
    ("global_address", Field::GlobalAddress),
    ("rank", Field::Rank),
    ("box_dim", Field::BoxDim),
    ("global_dim", Field::GlobalDim),
    ("global_stride", Field::GlobalStride),
    ("element_stride", Field::ElementStride),
    ("elemtype", Field::ElementType),
    ("swizzle_mode", Field::SwizzleMode),
    ("fill_mode", Field::FillMode),
];

/// A tiled tensor in global memory and how boxes of it are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Address of the first element.
    pub address: u64,
    /// Dimensions, 1 to 5.
    pub rank: u8,
    /// Elements by dimension, the innermost first.
    pub sizes: [u64; 5],
    /// Bytes between neighbors of dimension 1 and up.
    pub strides: [u64; 4],
    /// Elements of a box.
    pub box_sizes: [u16; 5],
    /// For each dimension, n if a box takes every n-th element.
    pub element_strides: [u8; 5],
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_bytes: u8,
    /// The `CUtensorMapDataType`, by which bulk reductions add and compare.
    pub data_type: u8,
    /// 0 none, 1 32 bytes, 2 64 bytes, 3 128 bytes: `CUtensorMapSwizzle`.
    pub swizzle: u8,
    /// Whether elements outside become NaN instead of zero.
    pub fill_nan: bool,
}

impl TensorMap {
    /// The opaque form that kernels get.
    pub fn encode(&self) -> [u8; 128] {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend([self.rank, self.element_bytes, self.data_type, self.swizzle]);
        bytes.extend(self.address.to_le_bytes());
        self.sizes.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        self.strides.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        self.box_sizes.iter().for_each(|n| bytes.extend(n.to_le_bytes()));
        bytes.extend(self.element_strides);
        bytes.push(u8::from(self.fill_nan));
        bytes.resize(128, 0);
        let mut all = [0; 128];
        all.copy_from_slice(&bytes);
        all
    }

    /// Decodes what `encode` made; `None` for anything else.
    pub fn decode(bytes: &[u8; 128]) -> Option<Self> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if bytes[..4] != MAGIC.to_le_bytes() || !(1..=5).contains(&bytes[4]) || !matches!(bytes[5], 1 | 2 | 4 | 8) {
            return None;
        }
        let mut map = Self {
            address: word(8),
            rank: bytes[4],
            sizes: [0; 5],
            strides: [0; 4],
            box_sizes: [0; 5],
            element_strides: [1; 5],
            element_bytes: bytes[5],
            data_type: bytes[6],
            swizzle: bytes[7],
            fill_nan: bytes[103] != 0,
        };
        for (index, size) in map.sizes.iter_mut().enumerate() {
            *size = word(16 + index * 8);
        }
        for (index, stride) in map.strides.iter_mut().enumerate() {
            *stride = word(56 + index * 8);
        }
        for (index, size) in map.box_sizes.iter_mut().enumerate() {
            *size = u16::from_le_bytes([bytes[88 + index * 2], bytes[89 + index * 2]]);
        }
        map.element_strides.copy_from_slice(&bytes[98..103]);
        Some(map)
    }

    /// Changes a field of the opaque form in place. It may be all zeros before, because that is how a kernel makes a map. False
    /// for a value that no map can have.
    pub(crate) fn replace(bytes: &mut [u8; 128], field: Field, ordinal: usize, value: u64) -> bool {
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        let mut set = |at: usize, size: usize| bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        match (field, ordinal) {
            (Field::GlobalAddress, 0) => set(8, 8),
            (Field::Rank, 0) if value < 5 => bytes[4] = value as u8 + 1,
            (Field::BoxDim, 0..5) if value <= 256 => set(88 + ordinal * 2, 2),
            (Field::GlobalDim, 0..5) => set(16 + ordinal * 8, 8),
            (Field::GlobalStride, 0..4) => set(56 + ordinal * 8, 8),
            (Field::ElementStride, 0..5) if (1..=8).contains(&value) => set(98 + ordinal, 1),
            (Field::ElementType, 0) if value < 13 => {
                // The ISA numbers element types; kept are the bytes of an element and the CUtensorMapDataType.
                (bytes[5], bytes[6]) = [
                    (1, 0),
                    (2, 1),
                    (4, 2),
                    (4, 3),
                    (8, 4),
                    (8, 5),
                    (2, 6),
                    (4, 7),
                    (4, 10),
                    (8, 8),
                    (2, 9),
                    (4, 11),
                    (4, 12),
                ][value as usize];
            }
            (Field::SwizzleMode, 0) if value < 4 => bytes[7] = value as u8,
            (Field::FillMode, 0) if value < 2 => bytes[103] = value as u8,
            _ => return false,
        }
        true
    }

    /// Where byte `offset` of a box that begins at shared address `base` is.
    pub(crate) fn swizzled(&self, base: u64, offset: u64) -> u64 {
        let at = base + offset;
        match self.swizzle {
            1 => at ^ (at >> 7 & 1) << 4,
            2 => at ^ (at >> 7 & 3) << 4,
            3 => at ^ (at >> 7 & 7) << 4,
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_comes_back_as_it_went() {
        let map = TensorMap {
            address: 0x7000_1234_5678,
            rank: 3,
            sizes: [100, 20, 3, 0, 0],
            strides: [400, 8000, 0, 0],
            box_sizes: [32, 4, 1, 0, 0],
            element_strides: [1, 2, 1, 1, 1],
            element_bytes: 4,
            data_type: 7,
            swizzle: 3,
            fill_nan: true,
        };
        assert_eq!(TensorMap::decode(&map.encode()), Some(map));
        assert_eq!(TensorMap::decode(&[0; 128]), None);
    }
}
