//! The device report: what one process did with its pretended GPUs.
