//! What the working directory is a state of: the git commit, and the CI server's run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::variable;

/// Variables that have one value in all jobs of a CI server's run, also when one of them is run again.
const BUILDS: [&str; 5] =
    ["GITHUB_RUN_ID", "CI_PIPELINE_ID", "BUILDKITE_BUILD_ID", "BUILD_BUILDID", "SLURM_ARRAY_JOB_ID"];

/// The CI server's run, `GITHUB_RUN_ID=12`.
pub fn build() -> Option<String> {
    BUILDS.iter().find_map(|name| Some(format!("{name}={}", variable::get(name)?.to_string_lossy())))
}

/// The commit that is checked out at or above `directory`, as far as git's files say.
pub fn commit(directory: &Path) -> Option<String> {
    let git = directory.ancestors().map(|above| above.join(".git")).find(|git| git.exists())?;
    // A worktree or submodule has a file that says where the directory is.
    let git = match fs::read_to_string(&git) {
        Ok(text) => git.parent()?.join(text.trim().strip_prefix("gitdir: ")?),
        Err(_) => git,
    };
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(name) = head.trim().strip_prefix("ref: ") else { return hash(&head) };
    let common = match fs::read_to_string(git.join("commondir")) {
        Ok(path) => git.join(path.trim()),
        Err(_) => git.clone(),
    };
    let loose = |directory: &PathBuf| hash(&fs::read_to_string(directory.join(name)).ok()?);
    let packed = || {
        let text = fs::read_to_string(common.join("packed-refs")).ok()?;
        text.lines().find_map(|line| hash(line.strip_suffix(name)?))
    };
    loose(&git).or_else(|| loose(&common)).or_else(packed)
}

fn hash(text: &str) -> Option<String> {
    let text = text.trim();
    (text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_found_however_git_keeps_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let write = |path: &str, text: &str| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        };
        let [first, second] = ["0123456789".repeat(4), "abcdef0123".repeat(4)];
        write(".git/HEAD", "ref: refs/heads/main\n");
        fs::create_dir_all(at("suites/deep")).unwrap();
        assert_eq!(commit(&at("suites/deep")), None);
        write(".git/packed-refs", &format!("# pack-refs\n{first} refs/heads/main\n{second} refs/heads/not-main\n"));
        assert_eq!(commit(&at("suites/deep")), Some(first.clone()));
        write(".git/refs/heads/main", &format!("{second}\n"));
        assert_eq!(commit(root.path()), Some(second.clone()));
        write(".git/worktrees/other/HEAD", "ref: refs/heads/main\n");
        write(".git/worktrees/other/commondir", "../..\n");
        write("other/.git", &format!("gitdir: {}\n", at(".git/worktrees/other").display()));
        assert_eq!(commit(&at("other")), Some(second));
        write(".git/HEAD", &format!("{first}\n"));
        assert_eq!(commit(root.path()), Some(first));
    }
}
