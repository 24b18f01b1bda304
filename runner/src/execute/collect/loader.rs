//! Finds messages of the dynamic loader about NVIDIA's libraries in the output of a case: a missing function or library that we
//! replace is a gap, not the program's failure.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::bytes::{Match, Regex};

use crate::execute::launch::holders;
use crate::observation::{Exit, Gap, ProcessObservation, Role};

/// glibc's messages: a name that no library defines, possibly with a version, and `dlerror()` after `dlsym`. Names are ASCII:
/// Unicode's classes would take longer to compile than a trivial case takes.
static SYMBOL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)undefined symbol: (\w+)|symbol (\w+) version \S+ not defined in file").expect("a constant")
});
static LIBRARY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)(lib[\w.+-]+\.so[.\d]*): cannot open shared object file").expect("a constant"));

/// One gap per missing name and rank. A missing library counts only if the process failed, because programs merely try
/// many of them.
pub(in crate::execute) fn gaps(processes: &[ProcessObservation]) -> Vec<Gap> {
    let mut seen: BTreeMap<(String, String, &str, Option<u32>), u64> = BTreeMap::new();
    for process in processes.iter().filter(|process| process.role != Role::Coordinator) {
        let rank = match process.role {
            Role::Rank(rank) => Some(rank),
            Role::Launcher(_) | Role::Srun | Role::Coordinator => None,
        };
        let streams = [&process.stderr, &process.stdout];
        for text in streams.into_iter().flat_map(|stream| [&stream.head, &stream.tail]).filter(|text| !text.is_empty())
        {
            for found in SYMBOL.captures_iter(text) {
                let name = found.get(1).or(found.get(2)).map_or_else(String::new, name);
                if let Some(library) = holders::missing_from(&name) {
                    *seen.entry((library.to_owned(), name, Gap::NO_FUNCTION, rank)).or_default() += 1;
                }
            }
            if process.exit == Exit::Code(0) {
                continue;
            }
            for found in LIBRARY.captures_iter(text).filter_map(|found| found.get(1)).map(name) {
                if let Some(library) = holders::not_held(&found) {
                    *seen.entry((library, found, Gap::NO_LIBRARY, rank)).or_default() += 1;
                }
            }
        }
    }
    let gap = |((library, name, detail, rank), count): (_, u64)| {
        let detail: &str = detail;
        Gap { library, name, detail: detail.to_owned(), count, rank }
    };
    seen.into_iter().map(gap).collect()
}

fn name(found: Match<'_>) -> String {
    String::from_utf8_lossy(found.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Captured;

    fn process(role: Role, code: i32, stderr: &str) -> ProcessObservation {
        let stderr = Captured { head: stderr.as_bytes().to_vec(), ..Captured::default() };
        ProcessObservation { role, exit: Exit::Code(code), stdout: Captured::default(), stderr }
    }

    #[test]
    fn only_names_of_the_libraries_that_we_stand_in_for_are_gaps() {
        for (code, stderr, gap) in [
            (
                127,
                "./a: symbol lookup error: ./a: undefined symbol: ncclCommOfTheFuture",
                Some("libnccl.ncclCommOfTheFuture"),
            ),
            (
                1,
                "ImportError: x.so: undefined symbol: cublasDgemmOfTheFuture, version libcublas.so.13",
                Some("libcublas.cublasDgemmOfTheFuture"),
            ),
            (
                127,
                "./a: relocation error: ./a: symbol cudaNewThing version libcudart.so.13 not defined in file libcudart.so.13 with link time reference",
                Some("libcudart.cudaNewThing"),
            ),
            (0, "AttributeError: libnvidia-ml.so.1: undefined symbol: nvmlNewThing", Some("libnvidia-ml.nvmlNewThing")),
            (127, "./a: undefined symbol: cuNewThing_v9", Some("libcuda.cuNewThing_v9")),
            (127, "./a: undefined symbol: my_function", None),
            (127, "./a: undefined symbol: cungqr_", None),
            (127, "./a: undefined symbol: _ZN2at4cuda3fooEv", None),
            // We do have it: the program was not started under the shim, or was linked wrongly.
            (127, "./a: undefined symbol: cuInit", None),
            (
                127,
                "./a: error while loading shared libraries: libcudnn_new.so.9: cannot open shared object file: No such file",
                Some("libcudnn_new.libcudnn_new.so.9"),
            ),
            (0, "libnvinfer.so.10: cannot open shared object file", None),
            (127, "./a: error while loading shared libraries: libmine.so.1: cannot open shared object file", None),
        ] {
            let found = gaps(&[process(Role::Rank(3), code, stderr)]);
            let names: Vec<String> = found.iter().map(|gap| format!("{}.{}", gap.library, gap.name)).collect();
            assert_eq!(names, gap.into_iter().collect::<Vec<_>>(), "{stderr}");
            assert!(found.iter().all(|gap| gap.rank == Some(3) && gap.count == 1));
        }
    }
}
