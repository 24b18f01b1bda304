//! What a Python program imports: files of the repository, and packages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use super::directories;

/// Maximum number of the repository's own files that are read for one program.
const MOST: usize = 400;

/// What a program imports, directly and through the repository's own modules.
#[derive(Clone, Debug, Default)]
pub(super) struct Imports {
    /// The texts of the program and of the modules, the program first.
    pub(super) sources: Vec<String>,
    /// Packages from outside by the name on the package index, sorted.
    pub(super) packages: BTreeSet<&'static str>,
    /// The last versions of packages that still have what the sources use, by package.
    pub(super) bounds: BTreeMap<&'static str, &'static str>,
    /// Modules from outside that are no known package, sorted.
    pub(super) unknown: BTreeSet<String>,
    /// Directories in which the repository's own modules are, besides the program's.
    pub(super) roots: BTreeSet<PathBuf>,
}

/// Reads `program`, below `root`.
pub(super) fn follow(root: &Path, program: &Path) -> Imports {
    let mut imports = Imports::default();
    let own = program.parent().unwrap_or(root);
    let places = [own.to_owned(), root.to_owned(), root.join("src")];
    let (mut seen, mut todo) = (BTreeSet::new(), VecDeque::from([program.to_owned()]));
    while let Some(file) = todo.pop_front() {
        if seen.len() >= MOST || !seen.insert(file.clone()) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for (module, dots) in modules(&text) {
            let beside = file.parent().unwrap_or(root);
            if dots > 0 {
                let base = beside.ancestors().nth(dots - 1).unwrap_or(beside);
                todo.extend(files(base, &module));
                continue;
            }
            let top = module.split('.').next().unwrap_or_default();
            if let Some(place) = places.iter().find(|place| is_module(place, top)) {
                if place != own {
                    imports.roots.insert(place.clone());
                }
                todo.extend(files(place, &module));
            } else if let Some(package) = package(&module) {
                imports.packages.insert(package);
            } else if !STANDARD.split_whitespace().any(|name| name == top) && !is_module(beside, top) {
                imports.unknown.insert(top.to_owned());
            }
        }
        let dropped = DROPPED.iter().filter(|(part, _, _)| text.contains(part));
        imports.bounds.extend(dropped.map(|(_, package, bound)| (*package, *bound)));
        imports.sources.push(text);
    }
    imports
}

fn is_module(place: &Path, name: &str) -> bool {
    place.join(format!("{name}.py")).is_file() || place.join(name).join("__init__.py").is_file()
        // A directory without one may be a package, too, if there are modules in it.
        || place.join(name).is_dir() && fs::read_dir(place.join(name)).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "py"))
        })
}

/// Whether the repository at `root` has a module of this name that could be imported by its name alone.
pub(super) fn is_own(root: &Path, name: &str) -> bool {
    fn below(place: &Path, name: &str, depth: usize) -> bool {
        // What is in a package has the package's name before its own.
        let here = !place.join("__init__.py").is_file() && is_module(place, name);
        let directories = fs::read_dir(place).into_iter().flatten().flatten().filter(|entry| {
            let may_be_own = entry.file_name().to_str().is_some_and(directories::may_be_own);
            may_be_own && entry.file_type().is_ok_and(|kind| kind.is_dir())
        });
        here || depth > 0 && directories.map(|entry| entry.path()).any(|inner| below(&inner, name, depth - 1))
    }
    below(root, name, directories::DEPTH)
}

/// The files of a module: itself, and the packages that it is in.
fn files(place: &Path, module: &str) -> Vec<PathBuf> {
    let mut at = place.to_owned();
    let mut found = Vec::new();
    for part in module.split('.').filter(|part| !part.is_empty()) {
        let file = at.join(format!("{part}.py"));
        at.push(part);
        found.extend([file, at.join("__init__.py")].into_iter().filter(|file| file.is_file()));
    }
    found
}

/// The modules that are imported when the text is: `a.b`, and the dots of a relative import. What is indented runs later, or
/// may fail.
fn modules(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        if let Some(rest) = line.strip_prefix("import ") {
            let names = rest.split(',').filter_map(|part| part.split_whitespace().next());
            found.extend(names.map(|name| (name.to_owned(), 0)));
        } else if let Some((from, what)) = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import")) {
            let name = from.trim().trim_start_matches('.');
            let dots = from.trim().len() - name.len();
            // `from package import module` may name a module.
            let what = what.trim().trim_start_matches('(');
            let names = what.split(',').filter_map(|part| part.split_whitespace().next());
            found.push((name.to_owned(), dots));
            found.extend(names.filter(|part| *part != "*").map(|part| {
                let dot = if name.is_empty() { "" } else { "." };
                (format!("{name}{dot}{part}"), dots)
            }));
        }
    }
    found
}

/// Whether `text` imports `module` or a part of it anywhere, also where it need not run.
pub(super) fn mentions(text: &str, module: &str) -> bool {
    let names = |rest: &str| {
        rest.strip_prefix(module).is_some_and(|end| !end.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    text.lines().map(str::trim_start).any(|line| {
        ["import ", "from "].iter().any(|word| line.strip_prefix(word).is_some_and(|rest| names(rest.trim_start())))
    })
}

/// The package that provides a module, if it is known here: a module's name alone may be the name of a stranger's package.
pub(super) fn package(module: &str) -> Option<&'static str> {
    let top = module.split('.').next().unwrap_or_default();
    if module.starts_with("torch.utils.tensorboard") {
        return Some("tensorboard");
    }
    let special = SPECIAL.iter().find(|(name, _)| *name == top).map(|(_, package)| *package);
    special.or_else(|| SAME.split_whitespace().find(|name| *name == top))
}

/// Uses of what a package no longer has, and its last versions that have it.
const DROPPED: &[(&str, &str, &str)] = &[
    ("_pil_interp", "timm", "timm<0.5"),
    ("timm.optim.nadam import Nadam", "timm", "timm<0.5"),
    ("t_mul=", "timm", "timm<0.5"),
];
/// Modules whose package has another name.
const SPECIAL: &[(&str, &str)] = &[
    ("PIL", "pillow"),
    ("absl", "absl-py"),
    ("attr", "attrs"),
    ("cv2", "opencv-python-headless"),
    ("google", "protobuf"),
    ("hydra", "hydra-core"),
    ("huggingface_hub", "huggingface-hub"),
    ("ml_collections", "ml-collections"),
    ("pkg_resources", "setuptools<81"),
    ("pytorch_lightning", "pytorch-lightning"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("tensorboardX", "tensorboardx"),
    ("yaml", "pyyaml"),
];
/// Modules whose package has the same name.
const SAME: &str = "accelerate albumentations click datasets diffusers einops evaluate fire fsspec ftfy fvcore h5py iopath \
    jsonargparse kornia lightning loguru matplotlib nltk numpy omegaconf packaging pandas peft psutil pycocotools pydantic \
    regex requests rich rootutils safetensors scipy seaborn sentencepiece setuptools simplejson six submitit tabulate \
    tensorboard termcolor tiktoken timm tokenizers torch torchaudio torchmetrics torchvision tqdm transformers triton tyro wandb \
    webdataset yacs zstandard";
/// Modules of Python itself.
const STANDARD: &str = "__future__ __main__ abc argparse array ast asyncio atexit base64 binascii bisect builtins bz2 calendar \
    cmath code codecs collections concurrent configparser contextlib contextvars copy copyreg csv ctypes curses dataclasses \
    datetime decimal difflib dis distutils email enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools \
    gc getopt getpass gettext glob graphlib gzip hashlib heapq hmac html http imp importlib inspect io ipaddress itertools json \
    keyword linecache locale logging lzma marshal math mimetypes mmap multiprocessing netrc numbers operator os pathlib pdb pickle \
    pickletools pkgutil platform plistlib pprint profile pstats pty pwd py_compile queue quopri random re readline reprlib \
    resource runpy sched secrets select selectors shelve shlex shutil signal site smtplib socket socketserver sqlite3 ssl stat \
    statistics string stringprep struct subprocess symtable sys sysconfig syslog tarfile tempfile termios textwrap threading time \
    timeit tkinter token tokenize tomllib trace traceback tracemalloc tty types typing unicodedata unittest urllib uuid venv \
    warnings wave weakref webbrowser xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_modules_are_followed_and_packages_named_as_the_index_names_them() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "tools/train.py",
            "import os, json\nimport torch.nn as nn\nfrom helpers import thing\nfrom pack.deep import one\nimport mystery\n\
             try:\n    import wandb\nexcept ImportError:\n    wandb = None\n",
        );
        write("tools/helpers.py", "import yaml  # settings\nfrom torch.utils.tensorboard import SummaryWriter\n");
        write("pack/__init__.py", "from . import other\n");
        write("pack/deep.py", "from .sibling import x\n");
        write("pack/sibling.py", "import cv2\nimport triton.language as tl\n");
        write("pack/other.py", "from PIL import Image\nCosineLRScheduler(x, t_mul=1.)\n");
        let imports = follow(root.path(), &root.path().join("tools/train.py"));
        let packages: Vec<&str> = imports.packages.into_iter().collect();
        assert_eq!(packages, ["opencv-python-headless", "pillow", "pyyaml", "tensorboard", "torch", "triton"]);
        assert_eq!(imports.bounds.into_iter().collect::<Vec<_>>(), [("timm", "timm<0.5")]);
        assert_eq!(imports.unknown.into_iter().collect::<Vec<_>>(), ["mystery"]);
        assert_eq!(imports.roots.into_iter().collect::<Vec<_>>(), [root.path()]);
        assert_eq!((imports.sources.len(), imports.sources[0].contains("mystery")), (6, true));
    }
}
