//! What each pass makes of a kernel of each class, as goldens (`cargo insta review`), and that compiled code does what the kernel
//! says. `fakegpu-ptxas --emit` prints the same.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use ptx::{Image, KernelError, Stage, StagedProgram};
use similar::TextDiff;

use crate::device::{Device, image, words};

const CLASSES: &str = include_str!("ptx/classes.ptx");
/// By nvcc and by Triton.
const COMPILED: [(&str, &str, &[&str]); 3] = [
    (
        "nvcc",
        include_str!("ptx/programs.ptx"),
        &["vadd", "reduce", "warpsum", "pr", "fibk", "ind", "wm", "mal", "sync_grid"],
    ),
    ("triton", include_str!("ptx/triton_add.ptx"), &["add"]),
    ("triton", include_str!("ptx/triton_softmax.ptx"), &["softmax"]),
];

/// The kernel as it was read, what each transformation changes in it, and what the analyses say.
fn golden(image: &Image, kernel: &str) -> String {
    let mut text = String::new();
    let mut before = String::new();
    for stage in Stage::ALL.into_iter().filter(|stage| *stage < Stage::Cranelift) {
        let now = image.emit(kernel, stage).unwrap_or_else(|error| panic!("{kernel}: {error}"));
        let shown = match stage {
            Stage::Decoded => now.clone(),
            _ if !stage.is_program() => now.clone(),
            _ if now == before => "(no change)\n".to_owned(),
            _ => TextDiff::from_lines(&before, &now).unified_diff().context_radius(1).to_string(),
        };
        write!(text, "== {}\n{shown}", stage.name()).unwrap();
        if stage.is_program() {
            before = now;
        }
    }
    text
}

#[test]
fn every_pass_makes_of_each_class_of_kernel_what_it_made_before() {
    let mut count = 0;
    let mut hold = |name: String, image: &Image, kernel: &str| {
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, golden(image, kernel));
        });
        count += 1;
    };
    let classes = image(CLASSES);
    for entry in classes.entries() {
        hold(entry.name.clone(), &classes, &entry.name);
    }
    for (compiler, text, kernels) in COMPILED {
        let image = image(text);
        kernels.iter().for_each(|kernel| hold(format!("{compiler}_{kernel}"), &image, kernel));
    }
    assert!(count >= 30, "{count} goldens");
}

/// What is printed of a program is all that there is to it: its text can be read, is printed again as it was, and is what the
/// interpreter executes in every launch of a test.
#[test]
fn a_program_is_read_back_from_its_text() {
    let compiled = COMPILED.into_iter().map(|(_, text, _)| text);
    for image in std::iter::once(CLASSES).chain(compiled).map(image) {
        for name in image.entries().iter().map(|entry| &entry.name) {
            for stage in Stage::ALL.into_iter().filter(|stage| stage.is_program()) {
                let text = image.emit(name, stage).unwrap();
                let again = image.interpreted_text(name, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(again.text(), text, "{name}: {}", stage.name());
            }
        }
    }
}

/// A program from its text at any stage becomes what the kernel itself becomes. Its code has other numbers of instructions, because
/// the text has only their lines; so it is compared with that from the first stage.
#[test]
fn a_program_goes_on_from_its_text() {
    let compiled = COMPILED.into_iter().map(|(_, text, _)| text);
    for image in std::iter::once(CLASSES).chain(compiled).map(image) {
        for name in image.entries().iter().map(|entry| &entry.name) {
            let emitted = Stage::ALL.map(|stage| image.emit(name, stage).unwrap());
            let code_of = |from: Stage, to| {
                let text = format!("// {name}: {}\n{}", from.name(), emitted[from as usize]);
                let program = StagedProgram::read_all(&text).unwrap().unwrap().remove(0);
                assert_eq!(program.name(), name);
                program.emit(to).unwrap_or_else(|error| panic!("{name}: {error}"))
            };
            for from in Stage::ALL.into_iter().filter(|stage| stage.is_program()) {
                for to in Stage::ALL.into_iter().filter(|to| *to >= from) {
                    let (again, of_kernel) = (code_of(from, to), &emitted[to as usize]);
                    let what = format!("{name}: from {} to {}", from.name(), to.name());
                    if to < Stage::Cranelift {
                        assert_eq!(again, *of_kernel, "{what}");
                        continue;
                    }
                    assert_eq!(again, code_of(Stage::Decoded, to), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_program_that_does_not_go_on_is_refused_with_its_place() {
    let barrier = image(CLASSES).emit("barrier", Stage::Sums).unwrap();
    let file = |stage: &str, text: &str| format!("// barrier: yields\n{barrier}// again: {stage}\n{text}");
    let second = barrier.lines().count() + 2;
    for (text, to, expected) in [
        (file("sums", &barrier), Stage::Pace, "1:1: barrier is at the stage `yields`, behind `pace`".to_owned()),
        (
            file("shapes", "%3: anything\n"),
            Stage::Machine,
            format!(
                "{second}:1: `shapes` is no stage of a program; those are decoded, last-thread-stores, pace, yields, sums"
            ),
        ),
        (
            file("sums", &barrier.replacen("shl.b32", "shl.b33", 1)),
            Stage::Machine,
            format!("{}:10: `shl.b33` is not an operation", second + 11),
        ),
    ] {
        let programs = StagedProgram::read_all(&text).unwrap();
        let emitted = programs.map_err(KernelError::from).and_then(|mut programs| programs.remove(0).emit(to));
        assert_eq!(emitted.unwrap_err().to_string(), expected);
    }
    assert!(StagedProgram::read_all(CLASSES).is_none(), "PTX has no title");
}

/// Of those whose two parameters are addresses, or one: every launch of a test is compared with the interpreter's.
#[test]
fn each_class_does_what_the_interpreter_does() {
    let classes = image(CLASSES);
    let mut ran = Vec::new();
    for entry in classes.entries() {
        // They wait for others, or ask for textures and for a host that launches.
        if ["spin", "texture", "surface", "launches", "lanes_in_step"].contains(&entry.name.as_str()) {
            continue;
        }
        let mut device = Device::new();
        let numbers: Vec<u32> =
            (0..1024).map(|number: u32| number.wrapping_mul(0x0101_0101)).chain([0x7f80_1234]).collect();
        let [input, output] = [device.put(&numbers), device.put(&[0u32; 4096])];
        let params: &[u64] = match entry.name.as_str() {
            "nested_loops" | "switch" => &[output, 2],
            "sums_of_products" | "asynchronous_copies" | "nan_of_arithmetic" => &[input, output],
            _ => &[output],
        };
        let params = &words(params)[..entry.param_bytes() as usize];
        // Whoever arrives makes the barrier new.
        let threads = if entry.name == "barriers_in_memory" { 1 } else { 64 };
        let launched =
            device.launch(&classes, &entry.name, [1; 3], [threads, 1, 1], params, |launch| launch.dynamic_shared = 64);
        launched.unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        ran.push(entry.name.clone());
    }
    assert!(ran.len() >= 20, "{ran:?}");
}

/// A NaN that is loaded keeps its bits where a register also holds results, whose NaN is the canonical one (PTX ISA, floating-point
/// instructions).
#[test]
fn nan_has_the_bits_of_where_it_comes_from() {
    let classes = image(CLASSES);
    for (input, expected) in [(0x7f80_1234u32, 0x7f80_1234u32), (0, 0x7fff_ffff), (0x3f80_0000, 0x7f80_0000)] {
        for threads in [1, 32] {
            let mut device = Device::new();
            let [from, to] = [device.put(&[input]), device.put(&[0u32; 2])];
            device.run(&classes, "nan_of_arithmetic", 1, threads, &[from, to]).unwrap();
            assert_eq!(device.get::<u32>(to, 1)[0], expected, "{input:#x} by {threads} threads");
        }
    }
}

#[test]
fn the_assembler_prints_every_stage() {
    let program = env!("CARGO_BIN_EXE_fakegpu-ptxas");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ptx/classes.ptx");
    let run = |arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let classes = image(CLASSES);
    for stage in Stage::ALL {
        let (code, printed, wrong) = run(&["--emit", stage.name(), "--entry", "barrier", file]);
        assert_eq!((code, wrong.as_str()), (Some(0), ""), "{}", stage.name());
        assert_eq!(printed, format!("// barrier: {}\n{}", stage.name(), classes.emit("barrier", stage).unwrap()));
    }
    // Of every kernel, if none is named.
    let (_, printed, _) = run(&["--emit=decoded", file]);
    assert!(printed.matches("// ").count() == classes.entries().len(), "{printed}");
    // What was printed goes on.
    let pace = concat!(env!("CARGO_TARGET_TMPDIR"), "/pace.ir");
    fs::write(pace, run(&["--emit", "pace", file]).1).unwrap();
    assert_eq!(run(&["--emit", "sums", pace]), run(&["--emit", "sums", file]));
    assert_eq!(run(&["--emit", "shapes", "-e", "barrier", pace]), run(&["--emit", "shapes", "-e", "barrier", file]));
    for (arguments, expected) in [
        (
            &["--emit", "decoded", pace][..],
            "pace.ir:1:1; error   : nested_loops is at the stage `pace`, behind `decoded`",
        ),
        (&["--emit", "sums", "--entry", "shuffle", pace][..], "pace.ir; error   : the image has no kernel shuffle"),
        (
            &["--emit", "assembly", file][..],
            "--emit assembly: no such stage; there are parsed, decoded, last-thread-stores, pace, yields, sums, shapes, liveness, cranelift, machine",
        ),
        (&["--emit", "pace", "--entry", "shuffle", file][..], "the image has no kernel shuffle"),
    ] {
        let (code, printed, wrong) = run(arguments);
        assert_eq!((code, printed.as_str()), (Some(1), ""), "{wrong}");
        assert!(wrong.contains(expected), "{wrong}");
    }
}
