//! Kernels and single instructions against models that share no code with the crate.

mod assembler;
mod checks;
mod children;
mod device;
mod emit;
mod floats;
mod footprint;
mod formats;
mod forms;
mod generated;
mod images;
mod integers;
mod lanes;
mod matrices;
mod memory;
mod mipmaps;
mod products;
mod programs;
mod rounding;
mod support;
mod surfaces;
mod texels;
mod triton;
mod video;
mod warpgroups;
mod warps;
