//! The names that a program can be linked with, by library: the committed lists of what the shim exports.

/// `shim/exports/LIBRARY.txt`: one `name status` a line.
const LISTS: &[(&str, &str)] = &[
    ("libcublas", include_str!("../../../../../shim/exports/libcublas.txt")),
    ("libcublasLt", include_str!("../../../../../shim/exports/libcublasLt.txt")),
    ("libcuda", include_str!("../../../../../shim/exports/libcuda.txt")),
    ("libcudart", include_str!("../../../../../shim/exports/libcudart.txt")),
    ("libcudnn", include_str!("../../../../../shim/exports/libcudnn.txt")),
    ("libcufft", include_str!("../../../../../shim/exports/libcufft.txt")),
    ("libcufile", include_str!("../../../../../shim/exports/libcufile.txt")),
    ("libcupti", include_str!("../../../../../shim/exports/libcupti.txt")),
    ("libcurand", include_str!("../../../../../shim/exports/libcurand.txt")),
    ("libcusolver", include_str!("../../../../../shim/exports/libcusolver.txt")),
    ("libcusparse", include_str!("../../../../../shim/exports/libcusparse.txt")),
    ("libcusparseLt", include_str!("../../../../../shim/exports/libcusparseLt.txt")),
    ("libnccl", include_str!("../../../../../shim/exports/libnccl.txt")),
    ("libnvJitLink", include_str!("../../../../../shim/exports/libnvJitLink.txt")),
    ("libnvToolsExt", include_str!("../../../../../shim/exports/libnvToolsExt.txt")),
    ("libnvidia-ml", include_str!("../../../../../shim/exports/libnvidia-ml.txt")),
    ("libnvrtc", include_str!("../../../../../shim/exports/libnvrtc.txt")),
    ("libnvshmem_host", include_str!("../../../../../shim/exports/libnvshmem_host.txt")),
];

/// The symbols of the library with this soname; empty if only its name is held. cuDNN 9 consists of parts (`libcudnn_graph`),
/// each of which has all of cuDNN's: which function is in which part differs between versions.
pub(super) fn exported_by(soname: &str) -> Vec<&'static str> {
    let stem = soname.split(".so").next().unwrap_or(soname);
    let stem = if stem.starts_with("libcudnn_") { "libcudnn" } else { stem };
    let list = LISTS.iter().find(|(library, _)| *library == stem).map_or("", |(_, list)| list);
    list.lines().filter_map(|line| line.split(' ').next()).collect()
}

/// Prefixes of NVIDIA's names, by library, longer ones first.
const PREFIXES: &[(&str, &str)] = &[
    ("cublasLt", "libcublasLt"),
    ("cublas", "libcublas"),
    ("cudnn", "libcudnn"),
    ("cufft", "libcufft"),
    ("cuFile", "libcufile"),
    ("cupti", "libcupti"),
    ("curand", "libcurand"),
    ("cusolver", "libcusolver"),
    ("cusparseLt", "libcusparseLt"),
    ("cusparse", "libcusparse"),
    ("pnccl", "libnccl"),
    ("nccl", "libnccl"),
    ("nvJitLink", "libnvJitLink"),
    ("nvml", "libnvidia-ml"),
    ("nvrtc", "libnvrtc"),
    ("nvtx", "libnvToolsExt"),
    ("__cuda", "libcudart"),
    ("cuda", "libcudart"),
    ("cu", "libcuda"),
];

/// The library that a function of this name belongs to, if we replace that library and lack the function.
pub(super) fn missing_from(name: &str) -> Option<&'static str> {
    // A capital must follow: cuInit, but neither LAPACK's cungqr_ nor a program's cuda_helper.
    let is_nvidias = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(char::is_uppercase));
    let (_, library) = PREFIXES.iter().find(|(prefix, _)| is_nvidias(prefix))?;
    (!exported_by(library).contains(&name)).then_some(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_of_the_shim_is_here() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../shim/exports");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("lib"))
            .collect();
        files.sort();
        let lists: Vec<String> = LISTS.iter().map(|(library, _)| format!("{library}.txt")).collect();
        assert_eq!(lists, files);
    }

    #[test]
    fn a_soname_has_its_librarys_names() {
        assert!(
            exported_by("libcuda.so.1").contains(&"cuInit") && !exported_by("libcuda.so.1").contains(&"cudaMalloc")
        );
        assert!(exported_by("libcudart.so.12").contains(&"cudaMalloc"));
        assert!(exported_by("libcudnn_graph.so.9").contains(&"cudnnBackendExecute"), "a part has the whole's");
        assert!(exported_by("libcublas_new.so.13").is_empty());
    }
}
