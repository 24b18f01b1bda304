//! `fgpu`: runs a command on simulated GPUs.

fn main() {
    std::process::exit(runner::commands::fgpu::run(&runner::commands::ending::parse(std::env::args_os())));
}
