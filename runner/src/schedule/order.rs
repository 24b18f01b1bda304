//! The order in which cases start. Reports always show them in suite order.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::case::Case;

/// Indices of `cases` in the order in which they start: suite order with one slot; otherwise longest first, so that no
/// long case is left over at the end. A case that never ran may be the longest. `took` holds durations by full id.
pub fn longest_first(cases: &[Arc<Case>], slots: u32, took: &HashMap<String, Duration>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    if slots > 1 && !took.is_empty() {
        // Stable: equals stay in suite order.
        order.sort_by_cached_key(|index| Reverse(took.get(&cases[*index].full_id()).copied().unwrap_or(Duration::MAX)));
    }
    order
}

/// Indices of `count` cases in an order that depends only on `seed`, on every machine and in every version.
pub fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed;
    for last in (1..count).rev() {
        // Fisher and Yates; the high half of the product is a number below last + 1.
        let other = (u128::from(splitmix64(&mut state)) * (last as u128 + 1)) >> 64;
        order.swap(last, other as usize);
    }
    order
}

/// Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::suite;

    #[test]
    fn the_longest_start_first_and_unknown_ones_before_them() {
        let case = |id| format!("- {{id: {id}, launch: {{argv: [x]}}}}\n");
        let text = format!("ftest: 1\nsuite: s\ncases:\n{}", ["a", "b", "c", "d"].map(case).concat());
        let cases = suite::parse(Path::new("s.yaml"), &text, Path::new("/")).unwrap().cases;
        let took = |times: &[(&str, u64)]| {
            times.iter().map(|(id, ms)| ((*id).to_owned(), Duration::from_millis(*ms))).collect::<HashMap<_, _>>()
        };
        let known = took(&[("s/a", 5), ("s/b", 90), ("s/d", 90)]);
        assert_eq!(longest_first(&cases, 2, &known), [2, 1, 3, 0]);
        assert_eq!(longest_first(&cases, 1, &known), [0, 1, 2, 3]);
        assert_eq!(longest_first(&cases, 2, &took(&[])), [0, 1, 2, 3]);
    }

    #[test]
    fn a_seed_is_an_order() {
        // The generator's first number for seed 0, from its authors' reference.
        assert_eq!(splitmix64(&mut 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(shuffled(6, 42), shuffled(6, 42));
        assert_ne!(shuffled(6, 42), shuffled(6, 43));
        let mut sorted = shuffled(100, 7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
