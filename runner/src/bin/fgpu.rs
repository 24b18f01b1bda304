//! `fgpu`: a command on pretended GPUs.

use clap::Parser;

fn main() {
    std::process::exit(runner::commands::fgpu::run(&runner::commands::fgpu::FgpuArgs::parse()));
}
