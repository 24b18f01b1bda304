//! What NCCL would choose: the constants of its versions, the channels it finds, the variables it reads, its tuner.

pub mod blocks;
pub mod channels;
pub mod constants;
pub mod printed;
pub mod settings;
pub mod tuner;
