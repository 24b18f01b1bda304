//! `fakegpu-ptxas`: run by Triton (`TRITON_PTXAS_PATH`) and XLA in place of NVIDIA's assembler. It checks the PTX and writes it
//! out with a NUL at its end, because the simulated driver runs PTX: an image is loaded without its size. With `--emit` it prints
//! what becomes of a kernel instead, which may be PTX or what an earlier `--emit` printed.

use std::io::{self, Write};
use std::process::ExitCode;
use std::{env, fs};

use ptx::{Image, KernelError, Module, ParseError, Place, RefusalKind, Stage, StagedProgram};

/// The answer of CUDA 12.9's assembler: compilers choose by it which version of PTX they write.
const VERSION: &str =
    "ptxas: NVIDIA (R) Ptx optimizing assembler, as simulated by ftest\nCuda compilation tools, release 12.9, V12.9.86";

/// Options whose value is the next argument.
const WITH_VALUE: [&str; 13] = [
    "-o",
    "--output-file",
    "-arch",
    "--gpu-name",
    "-O",
    "--opt-level",
    "-maxrregcount",
    "--maxrregcount",
    "-m",
    "--machine",
    "-e",
    "--entry",
    // This one NVIDIA's assembler does not have: it names a stage on the way of a kernel.
    "--emit",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.iter().any(|argument| ["--version", "-V"].contains(&argument.as_str())) {
        return ended(writeln!(io::stdout(), "{VERSION}").map_err(|error| format!("ptxas fatal   : stdout: {error}")));
    }
    ended(assemble(&arguments))
}

fn ended(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

fn assemble(arguments: &[String]) -> Result<(), String> {
    let (mut inputs, mut output) = (Vec::new(), "elf.o".to_owned());
    let (mut emit, mut entry) = (None, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if WITH_VALUE.contains(&argument.as_str()) {
            let value = rest.next().ok_or_else(|| format!("ptxas fatal   : {argument} needs a value"))?;
            match argument.as_str() {
                "-o" | "--output-file" => value.clone_into(&mut output),
                "--emit" => emit = Some(stage(value)?),
                "-e" | "--entry" => entry = Some(value),
                _ => {}
            }
        } else if let Some(value) = argument.strip_prefix("--emit=") {
            emit = Some(stage(value)?);
        } else if let Some(value) = argument.strip_prefix("--output-file=") {
            value.clone_into(&mut output);
        } else if !argument.starts_with('-') {
            inputs.push(argument);
        }
    }
    let [input] = inputs[..] else {
        return Err(format!("ptxas fatal   : one input file is needed, {} were given", inputs.len()));
    };
    let text = fs::read_to_string(input).map_err(|error| format!("ptxas fatal   : {input}: {error}"))?;
    if let Some(stage) = emit {
        return print(input, &text, stage, entry.map(String::as_str));
    }
    let image = image(input, &text)?;
    for entry in image.entries() {
        // Instructions that are not executed fail at launch, which reports why.
        if let Err(KernelError::Refused(refusal)) = image.check(&entry.name)
            && refusal.kind == RefusalKind::Invalid
        {
            let line = refusal.place.line;
            return Err(format!(
                "ptxas {input}, line {line}; error   : `{}`: {}",
                refusal.instruction, refusal.message
            ));
        }
    }
    fs::write(&output, text + "\0").map_err(|error| format!("ptxas fatal   : {output}: {error}"))
}

fn stage(name: &str) -> Result<Stage, String> {
    Stage::named(name).ok_or_else(|| {
        let names: Vec<&str> = Stage::ALL.into_iter().map(Stage::name).collect();
        format!("ptxas fatal   : --emit {name}: no such stage; there are {}", names.join(", "))
    })
}

fn image(input: &str, text: &str) -> Result<Image, String> {
    let module = Module::parse(text)
        .map_err(|error| format!("ptxas {input}, line {}; error   : {}", error.place.line, error.message))?;
    Image::link(&[module]).map_err(|error| format!("ptxas {input}; error   : {error}"))
}

/// Prints kernels at a stage: the one that is named, or all.
fn print(input: &str, text: &str, stage: Stage, entry: Option<&str>) -> Result<(), String> {
    let is_wanted = |name: &str| entry.is_none_or(|entry| entry == name);
    let mut kernels: Vec<(String, Result<String, KernelError>)> = Vec::new();
    if let Some(programs) = StagedProgram::read_all(text) {
        for program in programs.map_err(|error| mistake(input, error.into()))? {
            if is_wanted(program.name()) {
                kernels.push((program.name().to_owned(), program.emit(stage)));
            }
        }
    } else {
        let image = image(input, text)?;
        let names = image.entries().iter().map(|entry| &entry.name).filter(|name| is_wanted(name));
        kernels.extend(names.map(|name| (name.clone(), image.emit(name, stage))));
    }
    if let (Some(entry), []) = (entry, &kernels[..]) {
        return Err(mistake(input, KernelError::Unknown(entry.to_owned())));
    }
    for (name, text) in kernels {
        let text = text.map_err(|error| mistake(input, error))?;
        write!(io::stdout(), "// {name}: {}\n{text}", stage.name())
            .map_err(|error| format!("ptxas {input}; error   : stdout: {error}"))?;
    }
    Ok(())
}

fn mistake(input: &str, error: KernelError) -> String {
    match error {
        KernelError::Text(ParseError { place: Place { line, column }, message }) => {
            format!("ptxas {input}:{line}:{column}; error   : {message}")
        }
        error => format!("ptxas {input}; error   : {error}"),
    }
}
