//! How many blocks of a kernel fit on one SM: the arithmetic of NVIDIA's occupancy calculator over a profile's limits.
