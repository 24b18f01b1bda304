//! Textures and surfaces against the formulas of the CUDA Programming Guide ("Texture Fetching"), written here anew.

use ptx::{Addressing, Component, Texels, Texture, TrapKind};

use crate::device::{Device, FIRST_HANDLE, image, trap, words};
use crate::forms::{HEADER, Random};
use crate::texels::{SIZES, blended, bytes_of, folded, index, plain, texels};

const THREADS: usize = 256;

/// A kernel in which each thread fetches at its own coordinates and writes the four elements.
fn fetches(dimensions: u8, result: &str, coordinate: &str) -> String {
    let list = ["{%c0}", "{%c0, %c1}", "{%c0, %c1, %c2, %c2}"][usize::from(dimensions) - 1];
    format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n.reg .b64 %a, %t, %o, %n;\n.reg .b32 %c<4>, %r<8>;\n\
         ld.param.u64 %a, [p0];\nld.param.u64 %t, [p1];\nld.param.u64 %o, [p2];\nmov.u32 %r4, %tid.x;\nmul.wide.u32 %n, %r4, 16;\n\
         add.u64 %a, %a, %n;\nadd.u64 %o, %o, %n;\nld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%a];\n\
         tex.{dimensions}d.v4.{result}.{coordinate} {{%r0, %r1, %r2, %r3}}, [%t, {list}];\n\
         st.global.v4.b32 [%o], {{%r0, %r1, %r2, %r3}};\nret;\n}}\n"
    )
}

fn run_fetches(device: &mut Device, texture: Texture, result: &str, kind: &str, at: &[[u32; 4]]) -> Vec<[u32; 4]> {
    device.textures.push(texture);
    let handle = FIRST_HANDLE + device.textures.len() as u64 - 1;
    let (from, to) = (device.put(at), device.put(&vec![[0u32; 4]; at.len()]));
    let image = image(&fetches(texture.texels.dimensions, result, kind));
    device.run(&image, "k", 1, at.len() as u32, &[from, handle, to]).unwrap();
    device.get(to, at.len())
}

#[test]
fn fetches_are_those_of_the_guide() {
    let all = [Addressing::Wrap, Addressing::Clamp, Addressing::Mirror, Addressing::Border];
    let border = [100.0, 200.0, 300.0, 400.0];
    let mut random = Random(77);
    for dimensions in 1..=3u8 {
        for (which, addressing) in all.into_iter().enumerate() {
            for (is_filtered, is_normalized) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut device = Device::new();
                // Small whole numbers: sums of them times weights are exact.
                let texels = texels(&mut device, dimensions, Component::F32, 4, || {
                    (0..4).flat_map(|_| ((random.next() % 1000) as f32).to_le_bytes()).collect()
                });
                // The second and third dimension differ from the first.
                let addressing = [addressing, all[(which + 1) % 4], all[(which + 2) % 4]];
                let texture =
                    Texture { texels, addressing, is_filtered, is_normalized, promotes: false, border, mipmap: None };
                let at: Vec<[f32; 4]> = (0..THREADS)
                    .map(|_| {
                        std::array::from_fn(|axis| {
                            let sixteenths = (random.next() % 512) as f32 / 16.0 - 16.0;
                            let any = (random.next() % 100_000) as f32 / 3000.0 - 15.0;
                            let value = if random.next().is_multiple_of(2) { sixteenths } else { any };
                            if is_normalized { value / SIZES[axis.min(2)] as f32 } else { value }
                        })
                    })
                    .collect();
                let words: Vec<[u32; 4]> = at.iter().map(|one| one.map(f32::to_bits)).collect();
                let got = run_fetches(&mut device, texture, "f32", "f32", &words);
                let used = addressing.map(|mode| match mode {
                    Addressing::Wrap | Addressing::Mirror if !is_normalized => Addressing::Clamp,
                    mode => mode,
                });
                let table = |place: [i64; 3]| {
                    let mut inside = [0; 3];
                    for axis in 0..usize::from(dimensions) {
                        match index(used[axis], place[axis], i64::from(SIZES[axis])) {
                            Some(found) => inside[axis] = found,
                            None => return border.map(f64::from),
                        }
                    }
                    let bytes = bytes_of(&device, &texels, inside);
                    std::array::from_fn(|k| f64::from(f32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().unwrap())))
                };
                for (one, got) in at.iter().zip(got) {
                    let folded: Vec<f64> = (0..usize::from(dimensions))
                        .map(|axis| folded(used[axis], is_normalized, one[axis], SIZES[axis]))
                        .collect();
                    let expected = blended(&table, &folded, is_filtered, [0; 3]).map(|sum| sum as f32);
                    assert_eq!(
                        got.map(f32::from_bits),
                        expected,
                        "{dimensions}d {used:?} filtered {is_filtered} normalized {is_normalized} at {one:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn components_are_read_as_their_type_or_as_fractions() {
    use Component::*;
    for component in [U8, S8, U16, S16, U32, S32, F16, F32] {
        for channels in [1, 2, 4u8] {
            for promotes in [false, true] {
                let mut random = Random(u64::from(channels) + 3);
                let mut device = Device::new();
                let size = component.bytes() as usize;
                let texels = texels(&mut device, 1, component, channels, || {
                    (0..usize::from(channels)).flat_map(|_| random.next().to_le_bytes()[..size].to_vec()).collect()
                });
                let texture = Texture {
                    texels,
                    addressing: [Addressing::Clamp; 3],
                    is_filtered: false,
                    is_normalized: false,
                    promotes,
                    border: [0.0; 4],
                    mipmap: None,
                };
                let is_float = component.is_float() || (promotes && size < 4);
                let result = if is_float { "f32" } else { "u32" };
                let at: Vec<[u32; 4]> = (0..SIZES[0]).map(|x| [x, 0, 0, 0]).collect();
                let got = run_fetches(&mut device, texture, result, "s32", &at);
                for (x, got) in got.iter().enumerate() {
                    let bytes = bytes_of(&device, &texels, [x as i64, 0, 0]);
                    for (channel, got) in got.iter().enumerate() {
                        let missing = if channel < 3 { 0.0 } else { 1.0 };
                        if channel >= usize::from(channels) {
                            let number = if is_float { f64::from(f32::from_bits(*got)) } else { f64::from(*got) };
                            assert_eq!(number, missing, "{component:?} x{channels}, channel {channel}");
                            continue;
                        }
                        let raw = &bytes[channel * size..][..size];
                        let integer = match component {
                            U8 => i64::from(raw[0]),
                            S8 => i64::from(raw[0] as i8),
                            U16 => i64::from(u16::from_le_bytes(raw.try_into().unwrap())),
                            S16 => i64::from(i16::from_le_bytes(raw.try_into().unwrap())),
                            U32 | F32 => i64::from(u32::from_le_bytes(raw.try_into().unwrap())),
                            S32 => i64::from(i32::from_le_bytes(raw.try_into().unwrap())),
                            F16 => i64::from(half::f16::from_le_bytes(raw.try_into().unwrap()).to_f32().to_bits()),
                        };
                        let most = [255, 127, 65_535, 32_767]
                            [[U8, S8, U16, S16].iter().position(|c| *c == component).unwrap_or(0)];
                        let expected = if promotes && size < 4 && !component.is_float() {
                            (integer as f32 / most as f32).max(-1.0).to_bits()
                        } else {
                            integer as u32
                        };
                        assert_eq!(*got, expected, "{component:?} x{channels} of {raw:?}, promoted: {promotes}");
                    }
                }
            }
        }
    }
}

/// A kernel in which each thread makes a fetch that is given by its text, and writes the four elements.
fn fetches_by(instruction: &str) -> String {
    fetches(1, "f32", "f32").replace("tex.1d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%c0}];", instruction)
}

fn run_by(device: &Device, instruction: &str, at: &[[u32; 4]]) -> Vec<[f32; 4]> {
    let mut other = Device::new();
    other.textures = device.textures.clone();
    let (from, to) = (other.put(at), other.put(&vec![[0u32; 4]; at.len()]));
    other.share(device);
    other.run(&image(&fetches_by(instruction)), "k", 1, at.len() as u32, &[from, FIRST_HANDLE, to]).unwrap();
    other.get::<[f32; 4]>(to, at.len())
}

/// Layers of 5 x 5 texels, each its layer * 100 + row * 10 + column.
fn layers(device: &mut Device, layers: u32, is_cube: bool) -> Texels {
    let value = |at: u32| (at / 25 * 100 + at / 5 % 5 * 10 + at % 5) as f32;
    let address = device.put(&(0..25 * layers).map(value).collect::<Vec<f32>>());
    let (sizes, component) = ([5, 5, 1], Component::F32);
    Texels { address, dimensions: 2, sizes, pitch: 20, slice: 100, layers, is_cube, component, channels: 1 }
}

#[test]
fn one_row_is_fetched_by_one_coordinate() {
    let mut device = Device::new();
    let line = texels(&mut device, 1, Component::U32, 1, {
        let mut next = 0u32;
        move || {
            next += 10;
            next.to_le_bytes().to_vec()
        }
    });
    let rows = texels(&mut device, 2, Component::U32, 1, || vec![0; 4]);
    let instruction = "tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [%t, {%c0}];";
    let at: Vec<[u32; 4]> = (0..SIZES[0]).map(|x| [x, 0, 0, 0]).collect();
    for texels in [line, Texels { dimensions: 2, ..line }] {
        device.textures = vec![plain(texels)];
        let got: Vec<u32> = run_by(&device, instruction, &at).iter().map(|words| words[0].to_bits()).collect();
        assert_eq!(got, [10, 20, 30, 40, 50, 60, 70]);
    }
    // What has more rows than one is another kind of image.
    device.textures = vec![plain(rows)];
    let (from, to) = (device.put(&[[0u32; 4]]), device.put(&[[0u32; 4]]));
    let kernel = image(&fetches_by(instruction));
    assert!(device.run(&kernel, "k", 1, 1, &[from, FIRST_HANDLE, to]).is_err());
}

#[test]
fn layers_are_fetched_by_their_index() {
    let mut device = Device::new();
    let texels = layers(&mut device, 3, false);
    device.textures = vec![Texture { is_filtered: true, ..plain(texels) }];
    let instruction = "tex.a2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%c0, %c1, %c2, %c2}];";
    let at = [(0, 0.5f32, 0.5f32), (1, 2.0, 3.5), (2, 4.5, 4.5), (7, 1.5, 0.75), (2, 1.75, 2.25)];
    let words: Vec<[u32; 4]> = at.iter().map(|(layer, x, y)| [*layer, x.to_bits(), y.to_bits(), 0]).collect();
    // Between columns 1 and 2 of row 3: 31.5; a quarter of the way from row 0 to 1: 2.5; and 2.25 columns, 1.75 rows from the corner.
    let expected = [0.0, 131.5, 244.0, 203.5, 200.0 + 17.5 + 1.25];
    for (got, expected) in run_by(&device, instruction, &words).iter().zip(expected) {
        assert_eq!(got[0], expected);
    }
    let instruction = "tex.a2d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%t, {%c0, %c1, %c2, %c2}];";
    assert_eq!(run_by(&device, instruction, &[[1, 3, 2, 0]])[0], [123.0, 0.0, 0.0, 1.0]);
    // Counter-clockwise from the lower left, of a layer and of one image.
    let instruction = "tld4.r.a2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%c0, %c1, %c2, %c2}];";
    let place = [2, 2.25f32.to_bits(), 3.0f32.to_bits(), 0];
    assert_eq!(run_by(&device, instruction, &[place])[0], [231.0, 232.0, 222.0, 221.0]);
    device.textures = vec![plain(Texels { layers: 0, ..texels })];
    let instruction = "tld4.r.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%c1, %c2}];";
    assert_eq!(run_by(&device, instruction, &[place])[0], [31.0, 32.0, 22.0, 21.0]);
}

/// Of a face: its axis and the direction along it, and the same for s and t.
type Face = (usize, f32, [(usize, f32); 2]);

#[test]
fn a_cube_is_looked_at_from_its_middle() {
    // The guide's table: face, major axis, and the axes of s and t with their signs.
    let table: [Face; 6] = [
        (0, 1.0, [(2, -1.0), (1, -1.0)]),
        (0, -1.0, [(2, 1.0), (1, -1.0)]),
        (1, 1.0, [(0, 1.0), (2, 1.0)]),
        (1, -1.0, [(0, 1.0), (2, -1.0)]),
        (2, 1.0, [(0, 1.0), (1, -1.0)]),
        (2, -1.0, [(0, -1.0), (1, -1.0)]),
    ];
    let mut device = Device::new();
    let texels = layers(&mut device, 12, true);
    device.textures = vec![plain(texels)];
    let mut random = Random(9);
    let directions: Vec<[f32; 3]> =
        (0..256).map(|_| [0; 3].map(|_| (random.next() % 2001) as f32 / 1000.0 - 1.0)).collect();
    for cube in [0, 1] {
        let instruction = if cube == 0 {
            "tex.cube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%c1, %c2, %c3, %c3}];"
        } else {
            "tex.acube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%c0, %c1, %c2, %c3}];"
        };
        let at: Vec<[u32; 4]> = directions.iter().map(|[x, y, z]| [1, x.to_bits(), y.to_bits(), z.to_bits()]).collect();
        let got = run_by(&device, instruction, &at);
        let mut faces = [0; 6];
        for (direction, got) in directions.iter().zip(got) {
            let longest = direction.iter().fold(0f32, |most, part| most.max(part.abs()));
            let (face, (_, _, axes)) = table
                .iter()
                .enumerate()
                .find(|(_, (axis, sign, _))| direction[*axis] * sign == longest)
                .expect("a part is the longest");
            let [s, t] =
                axes.map(|(axis, sign)| ((sign * direction[axis] / longest + 1.0) / 2.0 * 5.0).floor().min(4.0));
            let expected = (cube * 6 + face) as f32 * 100.0 + t * 10.0 + s;
            assert_eq!(got[0], expected, "{direction:?}");
            faces[face] += 1;
        }
        assert!(faces.iter().all(|count| *count > 10), "{faces:?}");
    }
}

#[test]
fn the_border_of_integers_is_the_bits_of_its_color() {
    let mut device = Device::new();
    let texels = texels(&mut device, 2, Component::S16, 2, || vec![5, 0, 6, 0]);
    let border = [-3i32, 32_000, 7, 8].map(|number| f32::from_bits(number as u32));
    device.textures = vec![Texture { addressing: [Addressing::Border; 3], border, ..plain(texels) }];
    let instruction = "tex.2d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [%t, {%c0, %c1}];";
    let got =
        run_by(&device, instruction, &[[0, 0, 0, 0], [7, 0, 0, 0]]).into_iter().map(|words| words.map(f32::to_bits));
    // Channels that texels do not have are 0 and 1, there as well.
    assert_eq!(got.collect::<Vec<_>>(), [[5, 6, 0, 1], [-3i32 as u32, 32_000, 0, 1]]);
}

#[test]
fn texels_are_gathered_from_a_face() {
    let mut device = Device::new();
    let texels = layers(&mut device, 12, true);
    device.textures = vec![plain(texels)];
    // Towards +z, s is x and t is -y: from the middle of the face 2 texels of 5 are 0.8.
    let at = [1, 0.4f32.to_bits(), (-0.4f32).to_bits(), 1f32.to_bits()];
    for (instruction, cube) in [
        ("tld4.r.cube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%c1, %c2, %c3, %c3}];", 0.0),
        ("tld4.r.acube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%c0, %c1, %c2, %c3}];", 600.0),
    ] {
        // 0.7 of 5 is 3.5, the middle of texel 3: it and the next are those that filtering would take.
        let expected = [443.0, 444.0, 434.0, 433.0].map(|value| value + cube);
        assert_eq!(run_by(&device, instruction, &[at])[0], expected);
    }
}

/// Each thread copies one element from a surface to another, at the byte and rows of its own.
fn surface_copy(dimensions: u8, vector: &str, scalar: &str, registers: &str, outside: &str) -> String {
    let list = ["{%c0}", "{%c0, %c1}", "{%c0, %c1, %c2, %c2}"][usize::from(dimensions) - 1];
    let values = match vector {
        "" => "{%v0}",
        ".v2" => "{%v0, %v1}",
        _ => "{%v0, %v1, %v2, %v3}",
    };
    format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n.reg .b64 %a, %s, %d, %n;\n.reg .b32 %c<4>, %t;\n.reg .{registers} %v<4>;\n\
         ld.param.u64 %a, [p0];\nld.param.u64 %s, [p1];\nld.param.u64 %d, [p2];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %n, %t, 16;\nadd.u64 %a, %a, %n;\n\
         ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%a];\n\
         suld.b.{dimensions}d{vector}.{scalar}.{outside} {values}, [%s, {list}];\nsust.b.{dimensions}d{vector}.{scalar}.zero [%d, {list}], {values};\nret;\n}}\n"
    )
}

#[test]
fn surfaces_are_read_and_written_by_bytes() {
    for (vector, count) in [("", 1), (".v2", 2), (".v4", 4usize)] {
        for (scalar, register, size) in [("b8", "b16", 1), ("b16", "b16", 2), ("b32", "b32", 4), ("b64", "b64", 8usize)]
        {
            let bytes = size * count;
            if bytes > 16 {
                continue;
            }
            for dimensions in 1..=3u8 {
                for outside in ["clamp", "zero"] {
                    let mut random = Random(5);
                    let mut device = Device::new();
                    let (source, target) = ([0, 1])
                        .map(|_| {
                            texels(&mut device, dimensions, Component::F32, 4, || {
                                [random.next().to_le_bytes(), random.next().to_le_bytes()].concat()
                            })
                        })
                        .into();
                    let before: Vec<u8> = device.get(target.address, target.span() as usize);
                    device.textures = vec![plain(source), plain(target)];
                    // Inside, at both edges and far outside.
                    let at: Vec<[i32; 4]> = (-2..10)
                        .flat_map(|x: i32| {
                            (-1..6).map(move |y: i32| [x * 16 + (y & 1) * bytes as i32 % 16, y, y - 2, 0])
                        })
                        .collect();
                    let coordinates = device.put(&at);
                    let text = surface_copy(dimensions, vector, scalar, register, outside);
                    let params = [coordinates, FIRST_HANDLE, FIRST_HANDLE + 1];
                    device.run(&image(&text), "k", 1, at.len() as u32, &params).unwrap();
                    let mut expected = before;
                    for [x, y, z, _] in at {
                        let full = [x, y, z];
                        let limits = [SIZES[0] as i32 * 16 - bytes as i32, SIZES[1] as i32 - 1, SIZES[2] as i32 - 1];
                        let axes = 0..usize::from(dimensions);
                        if axes.clone().any(|axis| full[axis] < 0 || full[axis] > limits[axis]) {
                            continue;
                        }
                        let place = |texels: &Texels| {
                            let mut at = x as u64;
                            at += if dimensions > 1 { y as u64 * texels.pitch } else { 0 };
                            at + if dimensions > 2 { z as u64 * texels.slice } else { 0 }
                        };
                        let value = device.get::<u8>(source.address + place(&source), bytes);
                        expected[place(&target) as usize..][..bytes].copy_from_slice(&value);
                    }
                    let got: Vec<u8> = device.get(target.address, target.span() as usize);
                    assert_eq!(got, expected, "{dimensions}d{vector}.{scalar}.{outside}");
                }
            }
        }
    }
}

#[test]
fn outside_of_a_surface_is_the_nearest_element_or_zero_or_a_trap() {
    let mut device = Device::new();
    let mut next = 0u32;
    let source = texels(&mut device, 2, Component::U32, 1, || {
        next += 1;
        next.to_le_bytes().to_vec()
    });
    device.textures = vec![plain(source)];
    let load = |outside: &str| {
        format!(
            "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u32 x, .param .u32 y)\n{{\n.reg .b64 %o, %s;\n.reg .b32 %c<3>;\n\
             ld.param.u64 %o, [p0];\nld.param.u64 %s, [p1];\nld.param.u32 %c0, [x];\nld.param.u32 %c1, [y];\n\
             suld.b.2d.b32.{outside} %c2, [%s, {{%c0, %c1}}];\nst.global.u32 [%o], %c2;\nret;\n}}\n"
        )
    };
    let to = device.put(&[7u32]);
    let mut run = |outside: &str, handle: u64, x: i32, y: i32| {
        let mut params = words(&[to, handle]);
        params.extend(x.to_le_bytes());
        params.extend(y.to_le_bytes());
        let result = device.launch(&image(&load(outside)), "k", [1; 3], [1; 3], &params, |_| {});
        result.map(|_| device.get::<u32>(to, 1)[0])
    };
    // Rows of 7 words, counted from 1.
    assert_eq!(run("trap", FIRST_HANDLE, 8, 1), Ok(10));
    assert_eq!(run("clamp", FIRST_HANDLE, -4, 9), Ok(29));
    assert_eq!(run("clamp", FIRST_HANDLE, 400, -1), Ok(7));
    assert_eq!(run("zero", FIRST_HANDLE, 28, 0), Ok(0));
    for (x, y, handle, kind) in [
        (28, 0, FIRST_HANDLE, TrapKind::IllegalAddress),
        (0, 5, FIRST_HANDLE, TrapKind::IllegalAddress),
        (2, 0, FIRST_HANDLE, TrapKind::MisalignedAddress),
        (0, 0, FIRST_HANDLE + 1, TrapKind::IllegalAddress),
    ] {
        let error = run("trap", handle, x, y).map(|_| ptx::Stats::default());
        assert_eq!(trap(error).kind, kind, "{x} {y} {handle}");
    }
}
