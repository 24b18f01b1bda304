//! Mipmapped textures: which levels a fetch reads, and how it weighs them, against formulas written here anew.

use ptx::{Addressing, Component, Mipmap, Texels, Texture};

use crate::device::{Device, FIRST_HANDLE, image};
use crate::forms::{HEADER, Random};
use crate::texels::{self, blended, folded, index};

/// A mipmapped array of one float for each texel, and all of it level by level: sizes, and where the level begins.
struct Chain {
    texels: Texels,
    values: Vec<f32>,
    levels: Vec<([usize; 3], usize)>,
}

impl Chain {
    fn new(device: &mut Device, dimensions: u8, whole: [usize; 3], layers: usize, count: usize) -> Self {
        let mut random = Random(31);
        let mut sizes = [1; 3];
        sizes[..usize::from(dimensions)].copy_from_slice(&whole[..usize::from(dimensions)]);
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let (pitch, slice) = (sizes[0] as u64 * 4, (sizes[0] * sizes[1]) as u64 * 4);
        let texels = Texels {
            address: 0,
            dimensions,
            sizes: sizes.map(|size| size as u32),
            pitch,
            slice,
            layers: layers as u32,
            is_cube: false,
            component: Component::F32,
            channels: 1,
        };
        for _ in 0..count {
            levels.push((sizes, values.len()));
            // Small whole numbers: sums of them times weights are exact.
            let texels = sizes.iter().product::<usize>() * layers.max(1);
            values.extend((0..texels).map(|_| (random.next() % 1000) as f32));
            sizes = sizes.map(|size| if size > 1 { size / 2 } else { 1 });
        }
        let address = device.put(&values);
        Self { texels: Texels { address, ..texels }, values, levels }
    }

    /// What is at these normalized coordinates on a level, as the guide has it for one image; the texture clamps.
    fn texel_at(&self, level: usize, layer: usize, at: &[f32], is_filtered: bool) -> f64 {
        let (sizes, from) = self.levels[level];
        let table = |place: [i64; 3]| {
            let mut inside = [0; 3];
            for axis in 0..at.len() {
                inside[axis] = index(Addressing::Clamp, place[axis], sizes[axis] as i64).unwrap() as usize;
            }
            let slice = sizes[0] * sizes[1];
            let number = from + (layer * slice) * sizes[2] + inside[2] * slice + inside[1] * sizes[0] + inside[0];
            [f64::from(self.values[number]); 4]
        };
        let folded: Vec<f64> =
            at.iter().zip(sizes).map(|(x, size)| folded(Addressing::Clamp, true, *x, size as u32)).collect();
        blended(&table, &folded, is_filtered, [0; 3])[0]
    }

    /// What is at a level of detail.
    fn between(&self, mipmap: &Mipmap, detail: f64, layer: usize, at: &[f32], is_filtered: bool) -> f32 {
        let last = (self.levels.len() - 1) as f64;
        let bounded = detail.max(f64::from(mipmap.clamp[0])).min(f64::from(mipmap.clamp[1])).max(0.0).min(last);
        if !mipmap.is_filtered {
            return self.texel_at(bounded.round() as usize, layer, at, is_filtered) as f32;
        }
        let steps = (bounded * 256.0).round();
        let (level, weight) = ((steps / 256.0) as usize, steps % 256.0 / 256.0);
        let mut value = (1.0 - weight) * self.texel_at(level, layer, at, is_filtered);
        if weight > 0.0 {
            value += weight * self.texel_at(level + 1, layer, at, is_filtered);
        }
        value as f32
    }
}

const THREADS: usize = 128;

/// Runs a fetch by many threads, each at four words of coordinates and with eight numbers behind them; gives the first component.
fn run(device: &mut Device, texture: Texture, instruction: &str, input: &[[u32; 12]]) -> Vec<f32> {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{{\n.reg .b64 %a, %t, %o, %n;\n.reg .b32 %c<4>, %g<8>, %r<5>;\n\
         ld.param.u64 %a, [p0];\nld.param.u64 %t, [p1];\nld.param.u64 %o, [p2];\nmov.u32 %r4, %tid.x;\nmul.wide.u32 %n, %r4, 48;\n\
         add.u64 %a, %a, %n;\nmul.wide.u32 %n, %r4, 4;\nadd.u64 %o, %o, %n;\nld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%a];\n\
         ld.global.v4.b32 {{%g0, %g1, %g2, %g3}}, [%a+16];\nld.global.v4.b32 {{%g4, %g5, %g6, %g7}}, [%a+32];\n\
         {instruction}\nst.global.b32 [%o], %r0;\nret;\n}}\n"
    );
    device.textures = vec![texture];
    let (from, to) = (device.put(input), device.put(&vec![0f32; input.len()]));
    device.run(&image(&text), "k", 1, input.len() as u32, &[from, FIRST_HANDLE, to]).unwrap();
    device.get(to, input.len())
}

fn textures(texels: Texels, levels: u32) -> Vec<(Mipmap, Texture)> {
    let mut all = Vec::new();
    for is_filtered in [false, true] {
        for between in [false, true] {
            for (bias, clamp) in [(0.0, [0.0, 15.0]), (0.75, [0.5, 2.25]), (-1.5, [1.0, 1.0])] {
                let mipmap = Mipmap { levels, is_filtered: between, bias, clamp };
                let texture =
                    Texture { is_filtered, is_normalized: true, mipmap: Some(mipmap), ..texels::plain(texels) };
                all.push((mipmap, texture));
            }
        }
    }
    all
}

/// Dimensions, layers, the name of the geometry and its coordinates.
const GEOMETRIES: [(u8, usize, &str, &str); 5] = [
    (1, 0, "1d", "{%c1}"),
    (2, 0, "2d", "{%c1, %c2}"),
    (3, 0, "3d", "{%c1, %c2, %c3, %c3}"),
    (1, 3, "a1d", "{%c0, %c1}"),
    (2, 3, "a2d", "{%c0, %c1, %c2, %c2}"),
];

/// A layer and three normalized coordinates, some outside.
fn places(random: &mut Random) -> (usize, [f32; 3]) {
    let mut any = || (random.next() % 3000) as f32 / 2048.0 - 0.2;
    let at = [any(), any(), any()];
    ((random.next() % 3) as usize, at)
}

#[test]
fn a_level_of_detail_chooses_the_levels() {
    for (dimensions, layers, geometry, list) in GEOMETRIES {
        let mut device = Device::new();
        let chain = Chain::new(&mut device, dimensions, [12, 10, 6], layers, 4);
        for (mipmap, texture) in textures(chain.texels, 4) {
            let mut random = Random(5);
            // Sixteenths and others, from below the first level to above the last.
            let input: Vec<(usize, [f32; 3], f32)> = (0..THREADS)
                .map(|number| {
                    let (layer, at) = places(&mut random);
                    let parts = if number % 2 == 0 { 16.0 } else { 1000.0 };
                    let detail = ((random.next() % 7000) as f32 / 1000.0 - 2.0) * parts;
                    (layer, at, detail.floor() / parts)
                })
                .collect();
            let words: Vec<[u32; 12]> = input
                .iter()
                .map(|(layer, [x, y, z], detail)| {
                    let mut words = [0; 12];
                    words[..5].copy_from_slice(&[
                        *layer as u32,
                        x.to_bits(),
                        y.to_bits(),
                        z.to_bits(),
                        detail.to_bits(),
                    ]);
                    words
                })
                .collect();
            let level = format!("tex.level.{geometry}.v4.f32.f32 {{%r0, %r1, %r2, %r3}}, [%t, {list}], %g0;");
            let got = run(&mut device, texture, &level, &words);
            for ((layer, at, detail), got) in input.iter().zip(got) {
                let layer = if layers > 0 { *layer } else { 0 };
                let at = &at[..usize::from(dimensions)];
                let expected = chain.between(&mipmap, f64::from(detail + mipmap.bias), layer, at, texture.is_filtered);
                assert_eq!(got, expected, "{geometry} {mipmap:?} at {at:?}, level {detail}");
            }
            // Without a level it is that of most detail that the texture allows.
            for name in ["tex", "tex.base"] {
                let base = format!("{name}.{geometry}.v4.f32.f32 {{%r0, %r1, %r2, %r3}}, [%t, {list}];");
                let got = run(&mut device, texture, &base, &words);
                for ((layer, at, _), got) in input.iter().zip(got) {
                    let layer = if layers > 0 { *layer } else { 0 };
                    let at = &at[..usize::from(dimensions)];
                    assert_eq!(got, chain.between(&mipmap, 0.0, layer, at, texture.is_filtered), "{base} {mipmap:?}");
                }
            }
        }
    }
}

#[test]
fn gradients_choose_the_levels() {
    for (dimensions, layers, geometry, list) in GEOMETRIES {
        let mut device = Device::new();
        let sizes = [16, 8, 4];
        let chain = Chain::new(&mut device, dimensions, sizes, layers, 5);
        for (mipmap, texture) in textures(chain.texels, 5) {
            let mut random = Random(6);
            let axes = usize::from(dimensions);
            let input: Vec<(usize, [f32; 3], [[f32; 3]; 2])> = (0..THREADS)
                .map(|_| {
                    let (layer, at) = places(&mut random);
                    let gradients = [0, 1].map(|_| {
                        let texels = (random.next() % 6) as i32 - 2;
                        std::array::from_fn(|axis| {
                            (random.next() % 64) as f32 / 32.0 * 2f32.powi(texels) / sizes[axis] as f32
                        })
                    });
                    (layer, at, gradients)
                })
                .collect();
            let words: Vec<[u32; 12]> = input
                .iter()
                .map(|(layer, at, [dx, dy])| {
                    let mut words = [*layer as u32; 12];
                    for axis in 0..3 {
                        words[1 + axis] = at[axis].to_bits();
                        words[4 + axis] = dx[axis].to_bits();
                        words[8 + axis] = dy[axis].to_bits();
                    }
                    words
                })
                .collect();
            let [dx, dy] = match dimensions {
                1 => ["{%g0}", "{%g4}"],
                2 => ["{%g0, %g1}", "{%g4, %g5}"],
                _ => ["{%g0, %g1, %g2, %g3}", "{%g4, %g5, %g6, %g7}"],
            };
            let fetch = format!("tex.grad.{geometry}.v4.f32.f32 {{%r0, %r1, %r2, %r3}}, [%t, {list}], {dx}, {dy};");
            let got = run(&mut device, texture, &fetch, &words);
            for ((layer, at, gradients), got) in input.iter().zip(got) {
                // How many texels of level 0 the longer step goes.
                let steps = gradients.map(|gradient| {
                    (0..axes).map(|axis| f64::from(gradient[axis]) * sizes[axis] as f64).fold(0.0, f64::hypot)
                });
                let detail = f64::from(steps[0].max(steps[1]).log2() as f32 + mipmap.bias);
                let layer = if layers > 0 { *layer } else { 0 };
                let expected = chain.between(&mipmap, detail, layer, &at[..axes], texture.is_filtered);
                assert_eq!(got, expected, "{geometry} {mipmap:?} at {at:?}, {gradients:?}");
            }
        }
    }
}

#[test]
fn a_cube_has_levels() {
    let mut device = Device::new();
    // Each texel is its level * 100 + its face.
    let mut values = Vec::new();
    for level in 0..3 {
        let edge = 4 >> level;
        values.extend((0..12 * edge * edge).map(|texel| (level * 100 + texel / (edge * edge)) as f32));
    }
    let address = device.put(&values);
    let (sizes, component) = ([4, 4, 1], Component::F32);
    let texels = Texels {
        address,
        dimensions: 2,
        sizes,
        pitch: 16,
        slice: 64,
        layers: 12,
        is_cube: true,
        component,
        channels: 1,
    };
    let mipmap = Mipmap { levels: 3, is_filtered: true, bias: 0.0, clamp: [0.0, 9.0] };
    let texture = Texture { is_filtered: true, is_normalized: true, mipmap: Some(mipmap), ..texels::plain(texels) };
    let down = [0.0f32, -1.0, 0.25].map(f32::to_bits);
    for (geometry, list, cube) in [("cube", "{%c1, %c2, %c3, %c3}", 0.0), ("acube", "{%c0, %c1, %c2, %c3}", 6.0)] {
        for (detail, expected) in [(0.0f32, 0.0), (0.5, 50.0), (1.25, 125.0), (7.0, 200.0)] {
            let fetch = format!("tex.level.{geometry}.v4.f32.f32 {{%r0, %r1, %r2, %r3}}, [%t, {list}], %g0;");
            let input = [1, down[0], down[1], down[2], detail.to_bits(), 0, 0, 0, 0, 0, 0, 0];
            // -y is face 3.
            assert_eq!(run(&mut device, texture, &fetch, &[input]), [expected + 3.0 + cube], "{geometry} {detail}");
        }
    }
}

#[test]
fn levels_are_queried() {
    let mut device = Device::new();
    let chain = Chain::new(&mut device, 3, [12, 10, 6], 0, 4);
    let (_, texture) = textures(chain.texels, 4)[0];
    for (query, level, expected) in [
        ("txq.num_mipmap_levels.b32 %r0, [%t];", 0, 4),
        ("txq.width.b32 %r0, [%t];", 0, 12),
        ("txq.level.width.b32 %r0, [%t], %g0;", 2, 3),
        ("txq.level.height.b32 %r0, [%t], %g0;", 1, 5),
        ("txq.level.depth.b32 %r0, [%t], 3;", 0, 1),
    ] {
        let mut input = [0; 12];
        input[4] = level;
        assert_eq!(run(&mut device, texture, query, &[input])[0].to_bits(), expected, "{query}");
    }
}
