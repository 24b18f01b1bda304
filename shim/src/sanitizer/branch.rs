//! Launches of CUDA graphs, for the races sanitizer: nodes without a path between them run in any order, even though they are
//! submitted to one stream one after the other.

use protocol::ids::SiteId;

use super::lane::{self, Lane, Node};
use super::races::{self, Clock};

/// The division of a graph's nodes into branches: within a branch, every node depends on those before it.
#[derive(Debug, Default)]
pub(crate) struct Branches {
    /// The direct dependencies of each node, in launch order.
    after: Vec<Vec<usize>>,
    /// The branch of each, from 0.
    of: Vec<usize>,
    /// Whether a node of another branch directly depends on it.
    is_awaited: Vec<bool>,
    count: usize,
}

impl Branches {
    /// The branches of a graph whose nodes directly depend on those in `after`, all with lower indices.
    pub(crate) fn new(after: Vec<Vec<usize>>) -> Self {
        let mut of: Vec<usize> = Vec::with_capacity(after.len());
        // The last node of each branch, and, for each node, how much of each branch it comes after: so many of its nodes.
        let mut last: Vec<usize> = Vec::new();
        let mut lengths: Vec<usize> = Vec::new();
        let mut known: Vec<Vec<usize>> = Vec::with_capacity(after.len());
        for (node, before) in after.iter().enumerate() {
            let mut knows = vec![0; lengths.len()];
            for before in before {
                known[*before].iter().zip(&mut knows).for_each(|(theirs, ours)| *ours = (*ours).max(*theirs));
            }
            let is_direct = |branch: &usize| before.contains(&last[*branch]);
            let is_whole = |branch: &usize| knows[*branch] == lengths[*branch];
            let free = (0..lengths.len()).find(is_direct).or_else(|| (0..lengths.len()).find(is_whole));
            let branch = free.unwrap_or(lengths.len());
            if branch == lengths.len() {
                lengths.push(0);
                last.push(node);
                knows.push(0);
            }
            lengths[branch] += 1;
            last[branch] = node;
            knows[branch] = lengths[branch];
            of.push(branch);
            known.push(knows);
        }
        let mut is_awaited = vec![false; after.len()];
        for (node, before) in after.iter().enumerate() {
            before.iter().filter(|before| of[**before] != of[node]).for_each(|before| is_awaited[*before] = true);
        }
        Self { after, of, is_awaited, count: lengths.len() }
    }

    /// Begins a launch of the graph in `stream`.
    pub(crate) fn launch(&self, stream: Lane) -> Launch<'_> {
        let is_wanted = races::are_wanted();
        let open = || Open { start: races::point(stream), done: Vec::new(), lanes: Vec::new() };
        Launch { branches: self, stream, is_wanted, open: (is_wanted && self.count > 1).then(open), next: 0 }
    }
}

/// A launch in progress. After it is dropped, the stream is ordered after all branches.
pub(crate) struct Launch<'a> {
    branches: &'a Branches,
    stream: Lane,
    is_wanted: bool,
    /// `None` for a graph with one branch, which is ordered like its stream.
    open: Option<Open>,
    next: usize,
}

struct Open {
    start: Clock,
    /// For each node so far, what is known to be done after it, if another branch waits for it.
    done: Vec<Clock>,
    /// Branches that nodes were launched in.
    lanes: Vec<Lane>,
}

impl Launch<'_> {
    /// Launches the next node, which goes into `stream` by `body`. It was captured at `site`; `name` is its name if `body` does
    /// not set one.
    pub(crate) fn node<T>(
        &mut self,
        stream: Lane,
        name: Option<&'static str>,
        site: SiteId,
        body: impl FnOnce() -> T,
    ) -> T {
        if !self.is_wanted {
            return body();
        }
        let place = self.next;
        self.next += 1;
        let Some(Open { start, done, lanes }) = &mut self.open else {
            return lane::launching(Node { stream, lane: stream, name, site }, body);
        };
        let own = stream.branch(self.branches.of[place] as u32 + 1);
        if !lanes.contains(&own) {
            lanes.push(own);
            races::wait(own, start);
        }
        for before in &self.branches.after[place] {
            races::wait(own, &done[*before]);
        }
        let value = lane::launching(Node { stream, lane: own, name, site }, body);
        done.push(if self.branches.is_awaited[place] { races::point(own) } else { Clock::default() });
        value
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        for lane in self.open.iter().flat_map(|open| &open.lanes) {
            races::wait(self.stream, &races::point(*lane));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn branches(after: &[&[usize]]) -> (Vec<usize>, Vec<bool>) {
        let branches = Branches::new(after.iter().map(|before| before.to_vec()).collect());
        (branches.of, branches.is_awaited)
    }

    #[test]
    fn branches_by_table() {
        assert_eq!(branches(&[]), (vec![], vec![]));
        assert_eq!(branches(&[&[], &[0], &[1]]), (vec![0, 0, 0], vec![false; 3]));
        // A diamond, and another one behind it in the same two branches.
        assert_eq!(branches(&[&[], &[0], &[0], &[1, 2]]), (vec![0, 0, 1, 0], vec![true, false, true, false]));
        assert_eq!(branches(&[&[], &[0], &[0], &[1, 2], &[3], &[3], &[4, 5]]).0, [0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(branches(&[&[], &[], &[]]), (vec![0, 1, 2], vec![false; 3]));
    }

    proptest! {
        /// Two nodes are in the same branch only if there is a path between them.
        #[test]
        fn nodes_of_a_branch_are_in_order(edges in prop::collection::vec(prop::collection::vec(0..30usize, 0..3), 1..30)) {
            let after: Vec<Vec<usize>> = (0..)
                .zip(edges)
                .map(|(node, before)| {
                    let mut before: Vec<usize> = before.into_iter().filter(|before| *before < node).collect();
                    before.sort_unstable();
                    before.dedup();
                    before
                })
                .collect();
            let mut reaches: Vec<Vec<bool>> = Vec::new();
            for before in &after {
                let mut row = vec![false; after.len()];
                for before in before {
                    row[*before] = true;
                    (0..after.len()).for_each(|node| row[node] |= reaches[*before][node]);
                }
                reaches.push(row);
            }
            let branches = Branches::new(after);
            for (node, row) in reaches.iter().enumerate() {
                for earlier in (0..node).filter(|earlier| branches.of[*earlier] == branches.of[node]) {
                    prop_assert!(row[earlier], "{} and {}", earlier, node);
                }
            }
        }
    }
}
