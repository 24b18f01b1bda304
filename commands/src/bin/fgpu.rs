//! `fgpu`: runs a command on simulated GPUs.

fn main() {
    std::process::exit(commands::fgpu::run(&commands::ending::parse(std::env::args_os())));
}
