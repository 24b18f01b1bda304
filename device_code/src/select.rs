//! Selects the PTX that a device runs, as the driver does: from a fat binary, the highest architecture that is not above the
//! device's.

use std::borrow::Cow;

use crate::container::{self, CONTAINER, Kind};

/// How an ELF file begins.
pub const ELF: [u8; 4] = *b"\x7fELF";

/// The code for a device in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// PTX that it runs: one text, or several that were linked.
    Ptx(Vec<String>),
    /// Only machine code, or machine code with PTX that is too new: hardware may run it, but we do not.
    Machine {
        /// The lowest compute capability above the device's that there is PTX for, 10 x major + minor.
        ptx_from: Option<u32>,
    },
    /// Nothing that the device could run.
    Nothing,
}

/// Why something is not a valid image, in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

impl From<String> for Unusable {
    fn from(why: String) -> Self {
        Self(why)
    }
}

/// The code of a device linker's output is the PTX of everything it linked. If one part has none for the device (NVIDIA's own
/// device runtime), code that needs it does not link.
///
/// # Errors
/// As [`of_file`].
pub fn choose_linked(containers: &[&[u8]], capability: (i32, i32)) -> Result<Code, Unusable> {
    let [whole, parts @ ..] = containers else { return Ok(Code::Nothing) };
    let mut all = Vec::new();
    for part in parts {
        if let Code::Ptx(texts) = choose(part, capability)? {
            all.extend(texts);
        }
    }
    if all.is_empty() { choose(whole, capability) } else { Ok(Code::Ptx(all)) }
}

/// The code for a device of this compute capability in a file: a fat binary, a cubin, or PTX that may end with NUL.
///
/// # Errors
/// Why it cannot be read.
pub fn of_file(bytes: &[u8], capability: (i32, i32)) -> Result<Code, Unusable> {
    if bytes.starts_with(&CONTAINER.to_le_bytes()) {
        return choose(bytes, capability);
    }
    if bytes.starts_with(&ELF) {
        return Ok(Code::Machine { ptx_from: None });
    }
    text(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// Text is PTX if it states its version; the parser reports errors in it.
///
/// # Errors
/// If it is none.
pub fn text(bytes: &[u8]) -> Result<Code, Unusable> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains(".version") => Ok(Code::Ptx(vec![text.to_owned()])),
        _ => Err(Unusable("neither PTX nor a fat binary nor a cubin".to_owned())),
    }
}

/// The code for a device in a container.
///
/// # Errors
/// As [`of_file`].
pub fn choose(image: &[u8], capability: (i32, i32)) -> Result<Code, Unusable> {
    let entries = container::entries(image)?;
    let linked = entries.iter().filter(|entry| entry.kind == Kind::Linked);
    let linked = linked.map(|entry| Ok(ptx_of(&entry.data()?)?.to_owned())).collect::<Result<Vec<_>, Unusable>>()?;
    if !linked.is_empty() {
        return Ok(Code::Ptx(linked));
    }
    let wanted = (capability.0 * 10 + capability.1) as u32;
    let mut candidates: Vec<_> =
        entries.iter().filter(|entry| entry.kind == Kind::Ptx && entry.capability <= wanted).collect();
    candidates.sort_by_key(|entry| std::cmp::Reverse(entry.capability));
    for entry in candidates {
        let data: Cow<'_, [u8]> = entry.data()?;
        let text = ptx_of(&data)?;
        if runs_on(target(text), capability) {
            return Ok(Code::Ptx(vec![text.to_owned()]));
        }
    }
    // A cubin runs on its own major version, from its minor version on.
    let runs = |of: u32| of / 10 == wanted / 10 && of <= wanted;
    let has_machine = entries.iter().any(|entry| match entry.kind {
        Kind::Cubin => runs(entry.capability),
        // Of which we do not know what it is for.
        Kind::Other => true,
        Kind::Ptx | Kind::Linked => false,
    });
    let later = entries.iter().filter(|entry| entry.kind == Kind::Ptx && entry.capability > wanted);
    let ptx_from = later.map(|entry| entry.capability).min();
    Ok(if has_machine { Code::Machine { ptx_from } } else { Code::Nothing })
}

fn ptx_of(bytes: &[u8]) -> Result<&str, Unusable> {
    let text = std::str::from_utf8(bytes).map_err(|_| Unusable("PTX that is not text".to_owned()))?;
    Ok(text.trim_end_matches('\0'))
}

/// The first word of `.target`.
fn target(text: &str) -> &str {
    let rest = text.split_once(".target").map_or("", |(_, rest)| rest);
    rest.trim_start().split([',', ' ', '\n', '\r', '\t', '/']).next().unwrap_or("")
}

/// Whether PTX for this target runs on a device: on its own version and every later one; with `a` only on its own, with `f`
/// on its family, which is its major version from its minor version on (PTX ISA, `.target`).
pub fn runs_on(target: &str, (major, minor): (i32, i32)) -> bool {
    let digits: String = target.chars().filter(char::is_ascii_digit).collect();
    let Ok(of) = digits.parse::<i32>() else { return true };
    match target.chars().last() {
        Some('a') => (of / 10, of % 10) == (major, minor),
        Some('f') => of / 10 == major && of % 10 <= minor,
        _ => of <= major * 10 + minor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::linked;

    const IMAGES: [(&str, &[u8]); 4] = [
        ("cubin and zstd", include_bytes!("../../shim/tests/images/default.fatbin")),
        ("zstd alone", include_bytes!("../../shim/tests/images/ptx-zstd.fatbin")),
        ("lz4 alone", include_bytes!("../../shim/tests/images/ptx-lz4.fatbin")),
        ("text alone", include_bytes!("../../shim/tests/images/ptx-text.fatbin")),
    ];

    #[test]
    fn the_ptx_of_a_fat_binary_is_that_of_its_source() {
        for (way, image) in IMAGES {
            for capability in [(8, 0), (8, 9), (9, 0), (12, 1)] {
                let Ok(Code::Ptx(texts)) = of_file(image, capability) else { panic!("{way}: no PTX") };
                let text = &texts[0];
                assert!(text.contains(".target sm_80") && text.contains(".entry _Z6kernelPi"), "{way}: {text}");
            }
            assert_eq!(of_file(image, (7, 5)), Ok(Code::Nothing), "{way}");
        }
    }

    /// A container as nvcc writes it, with an empty cubin or PTX for each (kind, capability, target).
    fn container(entries: &[(u16, u32, &str)]) -> Vec<u8> {
        let mut all = Vec::new();
        for (kind, capability, target) in entries {
            let text = format!(".version 8.8\n.target {target}\n.address_size 64\n\0");
            let padded = text.len().next_multiple_of(8);
            let mut header = [0u8; 64];
            header[..2].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&64u32.to_le_bytes());
            header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
            header[28..32].copy_from_slice(&capability.to_le_bytes());
            all.extend_from_slice(&header);
            all.extend_from_slice(text.as_bytes());
            all.resize(all.len() + padded - text.len(), 0);
        }
        let mut whole = CONTAINER.to_le_bytes().to_vec();
        whole.extend_from_slice(&[1, 0, 16, 0]);
        whole.extend_from_slice(&(all.len() as u64).to_le_bytes());
        whole.extend_from_slice(&all);
        whole
    }

    #[test]
    fn the_highest_that_is_not_above_the_device_is_taken() {
        let image =
            container(&[(1, 75, "sm_75"), (1, 90, "sm_90a"), (1, 80, "sm_80"), (2, 86, ""), (1, 100, "sm_100f")]);
        let chosen = |capability| match of_file(&image, capability).unwrap() {
            Code::Ptx(texts) => target(&texts[0]).to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(chosen((7, 5)), "sm_75");
        assert_eq!(chosen((8, 0)), "sm_80");
        assert_eq!(chosen((8, 9)), "sm_80");
        assert_eq!(chosen((9, 0)), "sm_90a");
        assert_eq!(chosen((10, 3)), "sm_100f");
        assert_eq!(chosen((12, 0)), "sm_80", "neither 9.0 alone nor the family of 10.0");
        assert_eq!(chosen((7, 0)), "Nothing");
        let machine = container(&[(2, 80, ""), (1, 90, "sm_90")]);
        assert_eq!(of_file(&machine, (8, 6)), Ok(Code::Machine { ptx_from: Some(90) }));
        assert_eq!(of_file(&machine, (7, 5)), Ok(Code::Nothing), "code of another major version");
    }

    #[test]
    fn what_the_device_linker_put_together_is_the_ptx_of_all_its_parts() {
        let empty = container(&[]);
        let machine = container(&[(2, 80, "")]);
        let [first, second] =
            ["sm_80, first", "sm_75, second"].map(|target| container(&[(2, 80, ""), (1, 75, target)]));
        let chosen = |parts: &[&[u8]]| choose_linked(parts, (8, 0)).unwrap();
        let Code::Ptx(texts) = chosen(&[&machine, &first, &machine, &second]) else { panic!("no PTX") };
        assert!(texts.len() == 2 && texts[0].contains("first") && texts[1].contains("second"), "{texts:?}");
        assert_eq!(chosen(&[&machine, &machine]), Code::Machine { ptx_from: None }, "no part has PTX");
        assert_eq!(chosen(&[&empty]), Code::Nothing);
    }

    #[test]
    fn what_was_linked_is_whole_for_every_device() {
        let texts = ["first\n".to_owned(), "the second".to_owned()];
        for capability in [(5, 0), (12, 0)] {
            assert_eq!(of_file(&linked(&texts), capability), Ok(Code::Ptx(texts.to_vec())));
        }
    }

    #[test]
    fn what_is_no_image_is_said_so_and_text_is_ptx() {
        assert!(of_file(b"hello", (8, 0)).is_err() && of_file(b"", (8, 0)).is_err());
        assert!(of_file(b".version 8.0 \xff", (8, 0)).is_err());
        assert_eq!(of_file(b".version 8.0\0\xff", (8, 0)), Ok(Code::Ptx(vec![".version 8.0".to_owned()])));
        assert_eq!(of_file(b"\x7fELF\x02", (8, 0)), Ok(Code::Machine { ptx_from: None }));
    }
}
