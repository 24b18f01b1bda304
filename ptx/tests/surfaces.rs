//! Queries of textures and surfaces, converting stores and reductions, against what the PTX ISA says of each, written here anew.

use ptx::{Component, Image, LaunchError, Stats, Texels, Texture, TrapKind};

use crate::device::{Device, FIRST_HANDLE, image, trap, words};
use crate::forms::{HEADER, Random};
use crate::texels::{SIZES, bytes_of, plain, texels};

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

/// One query by one thread.
fn asked(textures: &[Texture], instruction: &str, handle: u64) -> Result<u32, LaunchError> {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n.reg .b64 %o, %t;\n.reg .b32 %r<3>;\n\
         ld.param.u64 %o, [p0];\nld.param.u64 %t, [p1];\n{instruction}\nst.global.u32 [%o], %r0;\nret;\n}}\n"
    );
    let mut device = Device::new();
    let to = device.put(&[0xdead_u32]);
    for texture in textures {
        let address = device.put(&vec![0u8; texture.texels.span() as usize]);
        device.textures.push(Texture { texels: Texels { address, ..texture.texels }, ..*texture });
    }
    device.run(&image(&text), "k", 1, 1, &[to, handle])?;
    Ok(device.get::<u32>(to, 1)[0])
}

#[test]
fn queries_are_answered_from_the_object() {
    let mut device = Device::new();
    let [line, rows, volume] =
        [1, 2, 3].map(|dimensions| plain(texels(&mut device, dimensions, Component::F32, 2, || vec![0; 8])));
    let layers = plain(Texels { layers: 3, sizes: [7, 5, 1], ..volume.texels });
    let layers = Texture { texels: Texels { dimensions: 2, ..layers.texels }, is_normalized: true, ..layers };
    let all = [line, rows, volume, layers];
    for (which, expected) in [
        ("width", [Some(7); 4]),
        ("height", [None, Some(5), Some(5), Some(5)]),
        ("depth", [None, None, Some(3), None]),
        ("array_size", [Some(0), Some(0), Some(0), Some(3)]),
        ("normalized_coords", [Some(0), Some(0), Some(0), Some(1)]),
        ("num_mipmap_levels", [Some(0); 4]),
        ("memory_layout", [Some(0); 4]),
    ] {
        for base in ["txq", "suq"] {
            let is_of_the_other = match base {
                "txq" => which == "memory_layout",
                _ => matches!(which, "normalized_coords" | "num_mipmap_levels"),
            };
            if is_of_the_other {
                continue;
            }
            for (number, expected) in expected.into_iter().enumerate() {
                let instruction = format!("{base}.{which}.b32 %r0, [%t];");
                let got = asked(&all, &instruction, FIRST_HANDLE + number as u64);
                match expected {
                    Some(expected) => assert_eq!(got, Ok(expected), "{instruction} {number}"),
                    None => assert_eq!(stopped(got).kind, TrapKind::IllegalAddress, "{instruction} {number}"),
                }
            }
        }
    }
    assert_eq!(stopped(asked(&all, "txq.width.b32 %r0, [%t];", 5)).kind, TrapKind::IllegalAddress);
}

fn stopped<T>(result: Result<T, LaunchError>) -> ptx::Trap {
    trap(result.map(|_| Stats::default()))
}

/// A kernel that stores four words, or as many as are named, at coordinates that it is given.
fn store(dimensions: u8, vector: &str, outside: &str) -> Image {
    let list = ["{%c0}", "{%c0, %c1}", "{%c0, %c1, %c2, %c2}"][usize::from(dimensions) - 1];
    let values = match vector {
        "" => "%v0",
        ".v2" => "{%v0, %v1}",
        _ => "{%v0, %v1, %v2, %v3}",
    };
    image(&format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n.reg .b64 %a, %s;\n.reg .b32 %c<4>, %v<4>;\n\
         ld.param.u64 %a, [p0];\nld.param.u64 %s, [p1];\nld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%a];\n\
         ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%a+16];\nsust.p.{dimensions}d{vector}.b32.{outside} [%s, {list}], {values};\nret;\n}}\n"
    ))
}

/// A number that the component holds: as the word that is stored, and as the bytes that become of it.
fn storable(component: Component, random: &mut Random) -> (u32, Vec<u8>) {
    let raw = random.next() as u32;
    match component {
        Component::U8 => (raw & 0xff, vec![raw as u8]),
        Component::S8 => (i32::from(raw as i8) as u32, vec![raw as u8]),
        Component::U16 => (raw & 0xffff, (raw as u16).to_le_bytes().to_vec()),
        Component::S16 => (i32::from(raw as i16) as u32, (raw as u16).to_le_bytes().to_vec()),
        Component::U32 | Component::S32 | Component::F32 => (raw, raw.to_le_bytes().to_vec()),
        Component::F16 => {
            // Eighths up to 255 in 11 bits: the exponent is that of the highest bit.
            let eighths = raw % 2040 + 1;
            let top = eighths.ilog2();
            let half = (top + 15 - 3) << 10 | (eighths << (10 - top) & 0x3ff);
            ((eighths as f32 / 8.0).to_bits(), (half as u16).to_le_bytes().to_vec())
        }
    }
}

#[test]
fn converting_stores_write_texels() {
    for component in COMPONENTS {
        for channels in [1, 2, 4u8] {
            for (vector, count) in [("", 1), (".v2", 2), (".v4", 4usize)] {
                for (dimensions, outside) in [(1, "clamp"), (2, "zero"), (2, "clamp"), (3, "zero"), (3, "clamp")] {
                    let mut random = Random(u64::from(channels) + 40);
                    let mut device = Device::new();
                    let size = component.bytes() as usize;
                    let surface = texels(&mut device, dimensions, component, channels, || {
                        vec![0x55; size * usize::from(channels)]
                    });
                    device.textures = vec![plain(surface)];
                    let kernel = store(dimensions, vector, outside);
                    let mut expected: Vec<u8> = device.get(surface.address, surface.span() as usize);
                    for _ in 0..40 {
                        let at: [i32; 3] =
                            std::array::from_fn(|axis| (random.next() % (u64::from(SIZES[axis]) + 4)) as i32 - 2);
                        let values: Vec<(u32, Vec<u8>)> = (0..4).map(|_| storable(component, &mut random)).collect();
                        let mut input = at.map(|word| word as u32).to_vec();
                        input.push(0);
                        input.extend(values.iter().map(|value| value.0));
                        let input = device.put(&input);
                        device.run(&kernel, "k", 1, 1, &[input, FIRST_HANDLE]).unwrap();
                        let axes = 0..usize::from(dimensions);
                        let is_inside = axes.clone().all(|axis| (0..SIZES[axis] as i32).contains(&at[axis]));
                        if !is_inside && outside == "zero" {
                            continue;
                        }
                        let mut place = [0; 3];
                        for axis in axes {
                            place[axis] = at[axis].clamp(0, SIZES[axis] as i32 - 1) as u64;
                        }
                        let from = place[2] * surface.slice
                            + place[1] * surface.pitch
                            + place[0] * u64::from(surface.texel_bytes());
                        for channel in 0..usize::from(channels) {
                            let target = &mut expected[from as usize + channel * size..][..size];
                            // What is not given is unpredictable; here it is all ones.
                            target.copy_from_slice(if channel < count {
                                &values[channel].1
                            } else {
                                &[0xff; 4][..size]
                            });
                        }
                    }
                    let got: Vec<u8> = device.get(surface.address, surface.span() as usize);
                    assert_eq!(got, expected, "{component:?} x{channels} {dimensions}d{vector} {outside}");
                }
            }
        }
    }
}

#[test]
fn what_a_texel_does_not_hold_stops_the_kernel() {
    for (component, word, stored) in [
        (Component::U8, 256, None),
        (Component::U16, 70_000, None),
        (Component::S8, 128, None),
        (Component::S8, -129i32 as u32, None),
        (Component::S16, 40_000, None),
        // Halves round to even, and have an end.
        (Component::F16, 2049f32.to_bits(), Some(0x6800)),
        (Component::F16, 2051f32.to_bits(), Some(0x6802)),
        (Component::F16, 65_520f32.to_bits(), Some(0x7c00)),
    ] {
        let mut device = Device::new();
        let surface = texels(&mut device, 1, component, 1, || vec![0x55; component.bytes() as usize]);
        device.textures = vec![plain(surface)];
        let input = device.put(&[3, 0, 0, 0, word, 0, 0, 0]);
        let result = device.run(&store(1, "", "trap"), "k", 1, 1, &[input, FIRST_HANDLE]);
        let bytes = bytes_of(&device, &surface, [3, 0, 0]);
        match stored {
            None => {
                let stop = trap(result);
                assert_eq!(stop.touched.and_then(|touched| touched.space), Some("texel"), "{component:?} {word}");
                assert!(bytes.iter().all(|byte| *byte == 0x55));
            }
            Some(expected) => assert_eq!(bytes, u16::to_le_bytes(expected), "{word}"),
        }
    }
}

/// Each thread reduces a value of its own, at coordinates of its own.
fn reductions(by: &str, name: &str, dimensions: u8, scalar: &str, outside: &str) -> Image {
    let list = ["{%c0}", "{%c0, %c1}", "{%c0, %c1, %c2, %c2}"][usize::from(dimensions) - 1];
    let bits = &scalar[1..];
    image(&format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n.reg .b64 %a, %s, %n;\n.reg .b32 %c<4>, %t, %b, %m;\n.reg .b{bits} %v;\n\
         ld.param.u64 %a, [p0];\nld.param.u64 %s, [p1];\nmov.u32 %t, %tid.x;\nmov.u32 %b, %ctaid.x;\nmov.u32 %m, %ntid.x;\nmad.lo.u32 %t, %b, %m, %t;\n\
         mul.wide.u32 %n, %t, 32;\nadd.u64 %a, %a, %n;\nld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%a];\nld.global.b{bits} %v, [%a+16];\n\
         sured.{by}.{name}.{dimensions}d.{scalar}.{outside} [%s, {list}], %v;\nret;\n}}\n"
    ))
}

/// A reduction of two numbers, as the ISA defines it.
fn reduced(name: &str, scalar: &str, old: u64, value: u64) -> u64 {
    let bits: u32 = scalar[1..].parse().unwrap();
    let number = |word: u64| match (scalar.starts_with('s'), bits) {
        (true, 32) => i128::from(word as u32 as i32),
        (true, _) => i128::from(word as i64),
        (false, _) => i128::from(word),
    };
    let result = match name {
        "add" => number(old) + number(value),
        "min" => number(old).min(number(value)),
        "max" => number(old).max(number(value)),
        "and" => i128::from(old & value),
        _ => i128::from(old | value),
    };
    result.rem_euclid(1 << bits) as u64
}

#[test]
fn reductions_of_a_surface_are_atomic() {
    const BLOCKS: usize = 8;
    const THREADS: usize = 64;
    let by_bytes: Vec<(&str, &str)> = [
        ("add", &["u32", "u64", "s32"][..]),
        ("min", &["u32", "s32", "u64", "s64"]),
        ("max", &["u32", "s32", "u64", "s64"]),
        ("and", &["b32"]),
        ("or", &["b32"]),
    ]
    .iter()
    .flat_map(|(name, scalars)| scalars.iter().map(move |scalar| (*name, *scalar)))
    .collect();
    let by_texels = ["add", "min", "max", "and", "or"].map(|name| (name, "b32"));
    let all = by_bytes.iter().map(|form| ("b", *form)).chain(by_texels.iter().map(|form| ("p", *form)));
    for (by, (name, scalar)) in all {
        for component in [Component::U32, Component::S32] {
            for dimensions in 1..=3u8 {
                for outside in ["clamp", "zero"] {
                    let mut random = Random(u64::from(dimensions) + 7);
                    let mut device = Device::new();
                    let size: usize = scalar[1..].parse::<usize>().unwrap() / 8;
                    // Of a texel of 8 bytes a reduction by bytes takes a half, or all.
                    let channels = if by == "p" { 1 } else { 2 };
                    let surface = texels(&mut device, dimensions, component, channels, || {
                        random.next().to_le_bytes()[..4 * usize::from(channels)].to_vec()
                    });
                    device.textures = vec![plain(surface)];
                    let row = surface.row_bytes() as usize;
                    let mut expected: Vec<u8> = device.get(surface.address, surface.span() as usize);
                    let mut input = Vec::new();
                    // Signs come from the texels where texels are what is addressed.
                    let meant = match (by, component) {
                        ("p", Component::S32) => "s32",
                        ("p", _) => "u32",
                        _ => scalar,
                    };
                    for _ in 0..BLOCKS * THREADS {
                        let step = if by == "p" { 4 } else { size };
                        let at: [i64; 3] = [row / step, SIZES[1] as usize, SIZES[2] as usize]
                            .map(|end| (random.next() % (end as u64 + 2)) as i64 - 1);
                        let value = random.next() >> (64 - 8 * size);
                        let x = if by == "p" { at[0] } else { at[0] * size as i64 };
                        input.extend([
                            x as u32,
                            at[1] as u32,
                            at[2] as u32,
                            0,
                            value as u32,
                            (value >> 32) as u32,
                            0,
                            0,
                        ]);
                        let ends = [(row / step) as i64, i64::from(SIZES[1]), i64::from(SIZES[2])];
                        let axes = 0..usize::from(dimensions);
                        if outside == "zero" && axes.clone().any(|axis| !(0..ends[axis]).contains(&at[axis])) {
                            continue;
                        }
                        let mut place = [0; 3];
                        for axis in axes {
                            place[axis] = at[axis].clamp(0, ends[axis] - 1) as usize;
                        }
                        let from =
                            place[2] * surface.slice as usize + place[1] * surface.pitch as usize + place[0] * step;
                        let target = &mut expected[from..from + size];
                        let mut old = [0; 8];
                        old[..size].copy_from_slice(target);
                        let new = reduced(name, meant, u64::from_le_bytes(old), value);
                        target.copy_from_slice(&new.to_le_bytes()[..size]);
                    }
                    let input = device.put(&input);
                    let kernel = reductions(by, name, dimensions, scalar, outside);
                    device.run(&kernel, "k", BLOCKS as u32, THREADS as u32, &[input, FIRST_HANDLE]).unwrap();
                    let got: Vec<u8> = device.get(surface.address, surface.span() as usize);
                    assert_eq!(got, expected, "{by} {name} {scalar} {dimensions}d {outside} {component:?}");
                }
            }
        }
    }
}

#[test]
fn a_reduction_that_is_not_possible_stops_the_kernel() {
    let mut device = Device::new();
    let words_of = texels(&mut device, 1, Component::U32, 1, || vec![0; 4]);
    let floats = texels(&mut device, 1, Component::F32, 1, || vec![0; 4]);
    let pairs = texels(&mut device, 1, Component::U32, 2, || vec![0; 8]);
    device.textures = vec![plain(words_of), plain(floats), plain(pairs)];
    for (by, handle, x, kind) in [
        ("p", 0, 7, TrapKind::IllegalAddress),
        ("p", 0, -1, TrapKind::IllegalAddress),
        ("b", 0, 28, TrapKind::IllegalAddress),
        ("b", 0, 2, TrapKind::MisalignedAddress),
        ("p", 1, 0, TrapKind::IllegalAddress),
        ("p", 2, 0, TrapKind::IllegalAddress),
    ] {
        let scalar = if by == "p" { "b32" } else { "u32" };
        let input = device.put(&[x, 0, 0, 0, 1, 0, 0, 0]);
        let params = words(&[input, FIRST_HANDLE + handle]);
        let kernel = reductions(by, "add", 1, scalar, "trap");
        let result = device.launch(&kernel, "k", [1; 3], [1; 3], &params, |_| {});
        assert_eq!(trap(result).kind, kind, "{by} {handle} {x}");
    }
}
