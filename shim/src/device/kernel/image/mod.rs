//! Device code as the compiler stores it in a program (fat binaries with cubins and PTX): the PTX for a device, and the initial
//! values of variables.

mod cubin;
mod fat_binary;
mod pointer;
mod ptx;

pub(crate) use device_code::container::linked;
use device_code::container::{self, Kind};
pub(crate) use device_code::select::{Code, Unusable, of_file, runs_on};
pub(crate) use pointer::{for_device, of_pointer};

/// The initial value of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Initial {
    /// Its bytes; missing bytes at the end are 0.
    pub(crate) bytes: Vec<u8>,
    /// Addresses of other variables: the offset in the bytes, the variable's name, and the addend.
    pub(crate) addresses: Vec<(usize, String, u64)>,
}

/// The initial value of the program's variable `name`. `wrapper` is the argument of `__cudaRegisterFatBinary`.
///
/// # Errors
/// Why it is not known, in a few words.
///
/// # Safety
/// `wrapper` is null or was made by the compiler.
pub(crate) unsafe fn initial(wrapper: usize, name: &str) -> Result<Initial, String> {
    // SAFETY: passed on.
    let images = unsafe { fat_binary::of_wrapper(wrapper) }?;
    let mut reason = "no device code".to_owned();
    for image in images {
        match initial_in(image, name) {
            Ok(initial) => return Ok(initial),
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

fn initial_in(image: &[u8], name: &str) -> Result<Initial, String> {
    let entries = container::entries(image)?;
    let mut reason = "no device code".to_owned();
    // The same for every architecture; a cubin says it in bytes.
    for kind in [Kind::Cubin, Kind::Ptx] {
        for entry in entries.iter().filter(|entry| entry.kind == kind) {
            let found = entry.data().and_then(|data| match kind {
                Kind::Cubin => cubin::initial(&data, name),
                _ => ptx::initial(&data, name),
            });
            match found {
                Ok(initial) => return Ok(initial),
                Err(why) => reason = why,
            }
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const IMAGES: [(&str, &[u8]); 4] = [
        ("cubin and zstd", include_bytes!("../../../../tests/images/default.fatbin")),
        ("zstd alone", include_bytes!("../../../../tests/images/ptx-zstd.fatbin")),
        ("lz4 alone", include_bytes!("../../../../tests/images/ptx-lz4.fatbin")),
        ("text alone", include_bytes!("../../../../tests/images/ptx-text.fatbin")),
    ];

    /// What `tests/images/variables.cu` writes in C++.
    #[test]
    fn variables_begin_with_what_the_source_says() {
        for (way, image) in IMAGES {
            let bytes = |name: &str, size: usize| {
                let initial = initial_in(image, name).unwrap_or_else(|why| panic!("{way}: {name}: {why}"));
                assert!(initial.addresses.is_empty() && initial.bytes.len() <= size, "{way}: {name}");
                let mut bytes = initial.bytes;
                bytes.resize(size, 0);
                bytes
            };
            assert_eq!(bytes("number", 4), 42i32.to_le_bytes(), "{way}");
            let values: Vec<u8> = [1.5f32, -2.0, 0.0, 3.25].iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(bytes("values", 16), values, "{way}");
            assert_eq!(bytes("zeroes", 24), [0; 24], "{way}");
            let table: Vec<u8> = [1u16, 2, 3, 4, 65535].iter().flat_map(|value| value.to_le_bytes()).collect();
            assert_eq!(bytes("table", 10), table, "{way}");
            let point = bytes("point", 24);
            assert_eq!(point[0], b'p', "{way}");
            assert_eq!(point[8..16], 0.1f64.to_le_bytes(), "{way}");
            assert_eq!(point[16..18], (-7i16).to_le_bytes(), "{way}");
            assert_eq!(bytes("large", 8), 0x0123_4567_89ab_cdef_u64.to_le_bytes(), "{way}");
            assert_eq!(bytes("ratio", 8), 0.1f64.to_le_bytes(), "{way}");
            assert_eq!(bytes("text", 8), *b"ftest\0\0\0", "{way}");
            assert_eq!(bytes("_ZN5inner5smallE", 1), [-3i8 as u8], "{way}");
            let pointer = initial_in(image, "pointer").unwrap();
            assert_eq!(pointer.addresses, [(0, "targets".to_owned(), 8)], "{way}");
            assert!(initial_in(image, "nothing").unwrap_err().contains("nothing"), "{way}");
        }
    }

    #[test]
    fn no_image_makes_it_panic() {
        for (way, image) in IMAGES {
            for end in 0..image.len() {
                let _ = initial_in(&image[..end], "number");
            }
            for at in 0..image.len().min(2048) {
                let mut torn = image.to_vec();
                torn[at] ^= 0xff;
                let _ = (way, initial_in(&torn, "values"), initial_in(&torn, "pointer"));
            }
        }
    }
}
