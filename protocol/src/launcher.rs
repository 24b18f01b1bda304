//! What a launcher sets for this process: torchrun and ftest set `RANK`, `LOCAL_RANK`, `WORLD_SIZE` and `LOCAL_WORLD_SIZE`, and
//! Slurm's srun sets `SLURM_PROCID` and others.

use crate::ids::Rank;

/// The variables of the launcher. One that is unset or not a number is `None`: the variables belong to the launcher and the
/// program, which may use them for something else.
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

    /// Like [`Launcher::read`]; if none of these variables is set, what srun says about a task that it has started.
    pub fn read_or_task(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let launcher = Self::read(&lookup);
        match Task::read(lookup) {
            Some(task) if launcher == Self::default() => Self {
                rank: Some(Rank(task.id)),
                local_rank: Some(task.local_id),
                world_size: Some(task.tasks),
                local_world_size: Some(task.local_tasks),
            },
            _ => launcher,
        }
    }
}

/// A task of a job step, as srun's variables describe it (`man srun`, "OUTPUT ENVIRONMENT VARIABLES").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// `SLURM_PROCID`: its number in the step.
    pub id: u32,
    /// `SLURM_NTASKS`: tasks of the step.
    pub tasks: u32,
    /// `SLURM_LOCALID`: its number on its node.
    pub local_id: u32,
    /// Tasks on its node, from `SLURM_STEP_TASKS_PER_NODE`.
    pub local_tasks: u32,
    /// `SLURM_NODEID`: the number of its node in the step.
    pub node: u32,
    /// `SLURM_STEP_NUM_NODES`: nodes of the step.
    pub nodes: u32,
}

impl Task {
    /// `None` if one of the variables is missing or not a number: then this process is not a task of a step. A batch script has
    /// `SLURM_PROCID`, but is not one either.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name| lookup(name)?.trim().parse::<u32>().ok();
        number("SLURM_STEP_ID")?;
        let node = number("SLURM_NODEID")?;
        Some(Self {
            id: number("SLURM_PROCID")?,
            tasks: number("SLURM_NTASKS")?,
            local_id: number("SLURM_LOCALID")?,
            local_tasks: tasks_on(&lookup("SLURM_STEP_TASKS_PER_NODE")?, node)?,
            node,
            nodes: number("SLURM_STEP_NUM_NODES")?,
        })
    }
}

/// Tasks on the node with this number: `2(x3),1` means two on each of three nodes, and one on the fourth.
fn tasks_on(list: &str, node: u32) -> Option<u32> {
    let mut first = 0u32;
    for entry in list.trim().split(',') {
        let (tasks, nodes) = match entry.split_once("(x") {
            Some((tasks, times)) => (tasks, times.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1u32),
        };
        first = first.checked_add(nodes)?;
        if node < first {
            return tasks.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among<'a>(given: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| given.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn numbers_are_trimmed_and_anything_else_is_unset() {
        let given = [("RANK", " 3 "), ("LOCAL_RANK", "1\n"), ("WORLD_SIZE", "-4"), ("LOCAL_WORLD_SIZE", "2 nodes")];
        let expected = Launcher { rank: Some(Rank(3)), local_rank: Some(1), world_size: None, local_world_size: None };
        assert_eq!(Launcher::read(among(&given)), expected);
        assert_eq!(Launcher::read(|_| None), Launcher::default());
    }

    /// As Slurm 22.05 set them for the last task of `srun -N2 -n4 --ntasks-per-node=2`.
    const TASK: [(&str, &str); 7] = [
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "3"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
        ("SLURM_NODEID", "1"),
        ("SLURM_STEP_NUM_NODES", "2"),
    ];

    #[test]
    fn a_task_is_a_rank_unless_the_launcher_says_otherwise() {
        let task = Task { id: 3, tasks: 4, local_id: 1, local_tasks: 2, node: 1, nodes: 2 };
        assert_eq!(Task::read(among(&TASK)), Some(task));
        let rank =
            Launcher { rank: Some(Rank(3)), local_rank: Some(1), world_size: Some(4), local_world_size: Some(2) };
        assert_eq!(Launcher::read_or_task(among(&TASK)), rank);
        let mut worker = TASK.to_vec();
        worker.push(("RANK", "7"));
        assert_eq!(Launcher::read_or_task(among(&worker)), Launcher { rank: Some(Rank(7)), ..Launcher::default() });
        assert_eq!(Launcher::read(among(&TASK)), Launcher::default());
        // A batch script has no step.
        assert_eq!(Task::read(among(&TASK[1..])), None);
    }

    #[test]
    fn tasks_are_counted_by_node() {
        let on = |list, nodes| (0..nodes).map(|node| tasks_on(list, node)).collect::<Vec<_>>();
        assert_eq!(on("2(x2)", 3), [Some(2), Some(2), None]);
        assert_eq!(on("3,1", 3), [Some(3), Some(1), None]);
        assert_eq!(on("4,2(x2),1", 5), [Some(4), Some(2), Some(2), Some(1), None]);
        assert_eq!(on("x", 1), [None]);
        assert_eq!(on("2(x2", 1), [None]);
    }
}
