//! What a launcher such as torchrun sets for this process: `RANK`, `LOCAL_RANK`, `WORLD_SIZE` and `LOCAL_WORLD_SIZE`.

use crate::ids::Rank;

/// The variables of the launcher. One that is unset or is not a number is `None`: they belong to the launcher and the program, which
/// may use them for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launcher {
    /// `RANK`: the global rank.
    pub rank: Option<Rank>,
    /// `LOCAL_RANK`: the rank on its node.
    pub local_rank: Option<u32>,
    /// `WORLD_SIZE`: ranks of the launch.
    pub world_size: Option<u32>,
    /// `LOCAL_WORLD_SIZE`: ranks on this node.
    pub local_world_size: Option<u32>,
}

impl Launcher {
    /// Reads the variables; spaces around a number do not matter.
    ///
    /// ```
    /// use protocol::ids::Rank;
    /// use protocol::launcher::Launcher;
    ///
    /// let launcher = Launcher::read(|name| (name == "RANK").then(|| " 3\n".to_owned()));
    /// assert_eq!(launcher, Launcher { rank: Some(Rank(3)), ..Launcher::default() });
    /// ```
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name| lookup(name)?.trim().parse().ok();
        Self {
            rank: number("RANK").map(Rank),
            local_rank: number("LOCAL_RANK"),
            world_size: number("WORLD_SIZE"),
            local_world_size: number("LOCAL_WORLD_SIZE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_trimmed_and_anything_else_is_unset() {
        let given = [("RANK", " 3 "), ("LOCAL_RANK", "1\n"), ("WORLD_SIZE", "-4"), ("LOCAL_WORLD_SIZE", "2 nodes")];
        let read =
            Launcher::read(|name| given.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()));
        let expected = Launcher { rank: Some(Rank(3)), local_rank: Some(1), world_size: None, local_world_size: None };
        assert_eq!(read, expected);
        assert_eq!(Launcher::read(|_| None), Launcher::default());
    }
}
