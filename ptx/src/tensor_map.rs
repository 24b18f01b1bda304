//! Tensor maps: the arguments of `cuTensorMapEncodeTiled`, in 128 bytes of this machine's own layout.

/// Bytes that mark a tensor map of this machine.
const MAGIC: u32 = 0x7054_6d31;

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
    /// Every how manieth element a box takes.
    pub element_strides: [u8; 5],
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_bytes: u8,
    /// The `CUtensorMapDataType`, by which bulk reductions add and compare.
    pub data_type: u8,
    /// 0 none, 1 32 bytes, 2 64 bytes, 3 128 bytes: `CUtensorMapSwizzle`.
    pub swizzle: u8,
    /// Elements outside become NaN instead of zero.
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

    /// What `encode` made; `None` for anything else.
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
