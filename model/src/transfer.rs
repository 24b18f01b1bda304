//! Sends and recvs whose two ends disagree about what NCCL does not carry: tags that come in another order, and tensors whose elements
//! lie in another order.

use std::collections::{BTreeMap, BTreeSet};

use protocol::transfer::{MOST, Route, Transfer};

/// A recv that got something else than the program meant.
#[derive(Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The end that receives.
    pub receive: Transfer,
    /// What is wrong, in one sentence.
    pub sentence: String,
}

/// The ends of one route, by how many came before.
#[derive(Default)]
struct Ends<'a> {
    sends: BTreeMap<u64, &'a Transfer>,
    receives: BTreeMap<u64, &'a Transfer>,
}

/// The first transfer of each route that is wrong. Ends are noted only if they have a tag or four dimensions; one that is not has the
/// tag 0. Left alone are routes with two ends of one place, as in a program that was started again, and tags of which some were not
/// noted, or that only one end gives: they do no harm where both ends come in the same order.
pub fn disagreements(transfers: &[Transfer]) -> Vec<Disagreement> {
    let mut routes: BTreeMap<Route, Ends<'_>> = BTreeMap::new();
    let (mut again, mut counts) = (BTreeSet::new(), BTreeMap::new());
    for transfer in transfers {
        *counts.entry(transfer.rank).or_insert(0) += 1;
        let route = Route { earlier: 0, ..transfer.route.clone() };
        let ends = routes.entry(route.clone()).or_default();
        let side = if transfer.is_send { &mut ends.sends } else { &mut ends.receives };
        if side.insert(transfer.route.earlier, transfer).is_some() {
            again.insert(route);
        }
    }
    let is_whole = counts.values().all(|count| *count < MOST);
    let found = routes.iter().filter(|(route, _)| !again.contains(route)).filter_map(|(_, ends)| {
        let tags = || if is_whole { ends.first_of_other_tag() } else { None };
        ends.first_of_other_order().or_else(tags)
    });
    found.collect()
}

impl Ends<'_> {
    /// The first recv whose tag is not that of its send, if both ends have the same tags in another order.
    fn first_of_other_tag(&self) -> Option<Disagreement> {
        let tags = |side: &BTreeMap<u64, &Transfer>| -> Vec<(u64, i64)> {
            side.iter().filter(|(_, end)| end.tag != 0).map(|(earlier, end)| (*earlier, end.tag)).collect()
        };
        let sorted = |tags: &[(u64, i64)]| {
            let mut sorted: Vec<i64> = tags.iter().map(|(_, tag)| *tag).collect();
            sorted.sort_unstable();
            sorted
        };
        let (sent, received) = (tags(&self.sends), tags(&self.receives));
        if sent == received || sorted(&sent) != sorted(&received) {
            return None;
        }
        let tag =
            |tags: &[(u64, i64)], place| tags.iter().find(|(other, _)| *other == place).map_or(0, |(_, tag)| *tag);
        // Where one end has the tag 0, it may not be noted.
        let differing = received.iter().find(|(place, tag_of_recv)| tag(&sent, *place) != *tag_of_recv)?;
        let receive = *self.receives.get(&differing.0)?;
        let sender = self.sends.values().next()?.rank;
        let sentence = format!(
            "rank {} receives with tag {} what rank {sender} sends with tag {}, transfer {} from one to the other: NCCL has no tags, so \
             tensors arrive in the order in which they are sent",
            receive.rank,
            differing.1,
            tag(&sent, differing.0),
            differing.0 + 1,
        );
        Some(Disagreement { receive: receive.clone(), sentence })
    }

    /// The first recv into a tensor of the same shape with its elements in another order.
    fn first_of_other_order(&self) -> Option<Disagreement> {
        let (earlier, receive) = self.receives.iter().find(|(earlier, receive)| {
            let differs = |send: &&Transfer| send.shape == receive.shape && order(send) != order(receive);
            self.sends.get(earlier).is_some_and(differs)
        })?;
        let send = self.sends.get(earlier)?;
        let sentence = format!(
            "rank {} receives a tensor of shape {:?} with strides {:?}, and rank {} sends it with strides {:?}: NCCL moves memory as it \
             lies, so the elements change their places",
            receive.rank, receive.shape, receive.strides, send.rank, send.strides
        );
        Some(Disagreement { receive: (*receive).clone(), sentence })
    }
}

/// The strides that matter: those of dimensions with several elements.
fn order(transfer: &Transfer) -> Vec<u64> {
    let both = transfer.shape.iter().zip(&transfer.strides);
    both.filter(|(size, _)| **size > 1).map(|(_, stride)| *stride).collect()
}

#[cfg(test)]
mod tests {
    use protocol::ids::Rank;

    use super::*;

    fn end(is_send: bool, earlier: u64, tag: i64) -> Transfer {
        Transfer {
            rank: Rank(if is_send { 4 } else { 6 }),
            route: Route { group: "0".to_owned(), source: 0, destination: 1, is_batched: false, earlier },
            is_send,
            tag,
            shape: vec![2, 3, 1, 4],
            strides: vec![12, 4, 4, 1],
            site: None,
        }
    }

    fn sentences(ends: &[Transfer]) -> Vec<String> {
        disagreements(ends).into_iter().map(|found| found.sentence).collect()
    }

    #[test]
    fn tags_in_another_order_are_wrong() {
        let ends = [end(true, 0, 1), end(true, 1, 2), end(false, 0, 2), end(false, 1, 1)];
        let found = sentences(&ends);
        assert!(
            found[0].starts_with("rank 6 receives with tag 2 what rank 4 sends with tag 1, transfer 1 "),
            "{found:?}"
        );
        assert_eq!(found.len(), 1, "{found:?}");
        let without_zero = sentences(&[end(true, 1, 1), end(false, 0, 1)]);
        assert!(without_zero[0].contains("receives with tag 1 what rank 4 sends with tag 0, transfer 1"));
    }

    #[test]
    fn tags_that_do_no_harm_are_left_alone() {
        assert!(sentences(&[end(true, 0, 1), end(true, 1, 2)]).is_empty(), "the other end has none");
        assert!(sentences(&[end(true, 0, 1), end(false, 0, 7)]).is_empty(), "other numbers");
        assert!(sentences(&[end(true, 0, 1), end(true, 1, 2), end(false, 0, 1), end(false, 1, 2)]).is_empty());
        let swapped = [end(true, 0, 1), end(true, 1, 2), end(false, 0, 2), end(false, 1, 1)];
        assert!(sentences(&[&swapped[..], &swapped[..]].concat()).is_empty(), "started again");
        let more = (2..MOST as u64).map(|earlier| end(true, earlier, 0));
        assert!(sentences(&swapped.into_iter().chain(more).collect::<Vec<_>>()).is_empty(), "not all was noted");
    }

    #[test]
    fn elements_in_another_order_are_wrong() {
        let last = Transfer { strides: vec![12, 1, 12, 3], ..end(true, 0, 0) };
        let found = sentences(&[last.clone(), end(false, 0, 0)]);
        assert!(
            found[0].starts_with(
                "rank 6 receives a tensor of shape [2, 3, 1, 4] with strides [12, 4, 4, 1], and rank 4 sends it \
                 with strides [12, 1, 12, 3]: "
            ),
            "{found:?}"
        );
        let same = Transfer { strides: vec![12, 4, 12, 1], ..end(true, 0, 0) };
        assert!(sentences(&[same, end(false, 0, 0)]).is_empty(), "a dimension of one element");
        let flat = Transfer { shape: vec![24], strides: vec![1], ..end(false, 0, 3) };
        assert!(sentences(&[last.clone(), flat]).is_empty(), "bytes as they lie");
        assert!(sentences(&[last, end(false, 1, 0)]).is_empty(), "another transfer");
    }
}
