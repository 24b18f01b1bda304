//! `fgpu`: a command on pretended GPUs.

fn main() {
    std::process::exit(runner::commands::fgpu::run(&runner::say::parse(std::env::args_os())));
}
