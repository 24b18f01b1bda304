//! One instruction in a kernel that runs it on many operands, each thread on its own.

use super::device::{Device, image, words};

/// A form of an instruction: its text with %d, %a, %b, %c for registers of the named types, and the expected result.
pub(crate) struct Form {
    pub(crate) text: String,
    pub(crate) result: &'static str,
    pub(crate) sources: Vec<&'static str>,
    pub(crate) model: Box<dyn Fn([u64; 3]) -> Expected>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Bits(u64),
    /// A number, and how far off the result may be: absolutely, and by the number.
    Near(f64, f64, f64),
    Anything,
}

pub(crate) fn bits_of(kind: &str) -> u32 {
    match kind {
        "pred" => 1,
        other => other.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap(),
    }
}

pub(crate) fn form(
    text: &str,
    result: &'static str,
    sources: &[&'static str],
    model: impl Fn([u64; 3]) -> Expected + 'static,
) -> Form {
    Form { text: text.to_string(), result, sources: sources.to_vec(), model: Box::new(model) }
}

/// A form whose result is exact.
pub(crate) fn exact(
    text: &str,
    result: &'static str,
    sources: &[&'static str],
    model: impl Fn([u64; 3]) -> u64 + 'static,
) -> Form {
    form(text, result, sources, move |args| Expected::Bits(model(args)))
}

fn register(kind: &str) -> &str {
    match kind {
        "pred" => "pred",
        "b8" => "b16",
        other => other,
    }
}

fn memory(kind: &str) -> String {
    if kind == "pred" { "u8".into() } else { format!("b{}", bits_of(kind)) }
}

/// The kernel of a form.
pub(crate) fn kernel(form: &Form, name: &str) -> String {
    let mut text = format!(
        ".visible .entry {name}(.param .u64 p0, .param .u64 p1)\n{{\n.reg .b64 %in, %out, %at;\n.reg .b32 %t, %n, %k;\n.reg .b16 %h;\n"
    );
    text += &format!(".reg .{} %d;\n", register(form.result));
    for (kind, name) in form.sources.iter().zip(["a", "b", "c"]) {
        text += &format!(".reg .{} %{name};\n", register(kind));
    }
    text += "ld.param.u64 %in, [p0];\nld.param.u64 %out, [p1];\nmov.u32 %t, %tid.x;\nmov.u32 %n, %ctaid.x;\nmov.u32 %k, %ntid.x;\n";
    text += "mad.lo.u32 %t, %n, %k, %t;\nmul.wide.u32 %at, %t, 32;\nadd.u64 %in, %in, %at;\nmul.wide.u32 %at, %t, 8;\nadd.u64 %out, %out, %at;\n";
    for (index, (kind, name)) in form.sources.iter().zip(["a", "b", "c"]).enumerate() {
        if *kind == "pred" {
            text +=
                &format!("ld.global.u8 %h, [%in+{}];\nand.b16 %h, %h, 1;\nsetp.ne.b16 %{name}, %h, 0;\n", index * 8);
        } else {
            text += &format!("ld.global.{} %{name}, [%in+{}];\n", memory(kind), index * 8);
        }
    }
    text += &form.text;
    if form.result == "pred" {
        text += "\nselp.b16 %h, 1, 0, %d;\nst.global.u8 [%out], %h;\nret;\n}\n";
    } else {
        text += &format!("\nst.global.{} [%out], %d;\nret;\n}}\n", memory(form.result));
    }
    text
}

pub(crate) const HEADER: &str = ".version 9.0\n.target sm_100a\n.address_size 64\n";

/// Numbers that are special in one of the types, in every width.
pub(crate) const SPECIAL: [u64; 40] = [
    0,
    1,
    2,
    3,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x3c00,
    0x7bff,
    0x7c00,
    0x7e00,
    0x8000,
    0xfc00,
    0x0400,
    0x03ff,
    0x3f80,
    0x7f80,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x0080_0000,
    0x0000_0001_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
    0x3ff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
];

/// xorshift: the same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Operands: special with special, then random ones, floats among them near each other.
pub(crate) fn operands(seed: u64, count: usize) -> Vec<[u64; 3]> {
    let mut random = Random(seed | 1);
    let mut all = Vec::new();
    while all.len() < count {
        let mut pick = |index: usize| {
            let raw = random.next();
            match (all.len() + index) % 4 {
                0 => SPECIAL[(raw % SPECIAL.len() as u64) as usize],
                1 => raw,
                // Numbers of middling size as floats of 16, 32 and 64 bits.
                2 => {
                    let float = ((raw >> 40) as f64 / 4096.0 - 2048.0) / f64::from(1u32 << (raw & 15));
                    let single = u64::from((float as f32).to_bits());
                    match raw >> 4 & 3 {
                        0 => float.to_bits(),
                        1 => u64::from(half::f16::from_f64(float).to_bits()) * 0x1_0001,
                        _ => single,
                    }
                }
                _ => raw >> (raw & 63),
            }
        };
        all.push([pick(0), pick(1), pick(2)]);
    }
    all
}

fn cut(value: u64, kind: &str) -> u64 {
    match bits_of(kind) {
        64 => value,
        bits => value & ((1 << bits) - 1),
    }
}

fn near(kind: &str, got: u64, value: f64, absolute: f64, relative: f64) -> bool {
    let number = match kind {
        "f64" => f64::from_bits(got),
        "f16" => half::f16::from_bits(got as u16).to_f64(),
        "bf16" => f64::from(f32::from_bits((got as u32) << 16)),
        _ => f64::from(f32::from_bits(got as u32)),
    };
    if value.is_nan() {
        return number.is_nan();
    }
    if number == value {
        return true;
    }
    (number - value).abs() <= absolute + relative * value.abs()
}

/// Runs every form on its operands and compares; all differences are named, the first of each form.
pub(crate) fn check(forms: &[Form], count: usize) {
    let mut wrong = Vec::new();
    for (number, form) in forms.iter().enumerate() {
        let text = format!("{HEADER}{}", kernel(form, "k"));
        let image = image(&text);
        if let Err(error) = image.kernel("k") {
            wrong.push(format!("{error}"));
            continue;
        }
        let operands: Vec<[u64; 3]> = operands(number as u64 * 77 + 5, count);
        let input: Vec<u64> = operands.iter().flat_map(|o| [o[0], o[1], o[2], 0]).collect();
        let mut device = Device::new();
        let (input, output) = (device.put(&input), device.put(&vec![0u64; count]));
        let result =
            device.launch(&image, "k", [count as u32 / 128, 1, 1], [128, 1, 1], &words(&[input, output]), |_| {});
        if let Err(error) = result {
            wrong.push(format!("{}: {error}", form.text));
            continue;
        }
        let results = device.get::<u64>(output, count);
        for (args, got) in operands.iter().zip(results) {
            let mut cut_args = [0; 3];
            for (index, kind) in form.sources.iter().enumerate() {
                cut_args[index] = cut(args[index], kind);
            }
            let got = cut(got, form.result);
            let good = match (form.model)(cut_args) {
                Expected::Bits(bits) => cut(bits, form.result) == got,
                Expected::Near(value, absolute, relative) => near(form.result, got, value, absolute, relative),
                Expected::Anything => true,
            };
            if !good {
                let expected = (form.model)(cut_args);
                wrong.push(format!("{}: of {cut_args:x?}: {got:#x}, expected {expected:x?}", form.text));
                break;
            }
        }
    }
    // `ptxas` over the same kernels: are they what NVIDIA calls PTX?
    if let Ok(path) = std::env::var("PTX_DUMP") {
        let name = std::thread::current().name().unwrap_or("forms").to_string();
        let all: String = forms.iter().enumerate().map(|(at, form)| kernel(form, &format!("k{at}"))).collect();
        std::fs::write(format!("{path}/{name}.ptx"), format!("{HEADER}{all}")).unwrap();
    }
    assert!(wrong.is_empty(), "{} of {} forms:\n{}", wrong.len(), forms.len(), wrong.join("\n"));
}
