//! A part of the selected cases, for machines that share a run: the parts are disjoint and together cover all cases.

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh64::xxh64;

/// One of several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    kind: Kind,
    /// From 1.
    part: u32,
    of: u32,
}

/// How cases are distributed. The behavior of each kind is stable: a change would be a new kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The ids in byte order, distributed round-robin: sizes differ by at most one, but an added case moves others.
    Slice,
    /// By the id alone, so that no case moves when others are added or removed: xxHash64 of the full id with seed 0,
    /// modulo the number of parts. `printf %s 'suite/case' | xxhsum -H1` gives the same number.
    Hash,
}

/// The number of parts, and how cases are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shards {
    kind: Kind,
    of: u32,
}

impl Shard {
    /// Its number, from 1.
    pub fn part(&self) -> u32 {
        self.part
    }

    /// All shards that this one is one of.
    pub fn siblings(&self) -> Shards {
        Shards { kind: self.kind, of: self.of }
    }

    /// Whether it can have any of this many cases.
    pub fn may_hold(&self, cases: usize) -> bool {
        match self.kind {
            Kind::Slice => self.part as usize <= cases,
            Kind::Hash => cases > 0,
        }
    }

    /// Which of the cases with these full ids belong to this part, in the order of `ids`.
    pub fn select(&self, ids: &[String]) -> Vec<bool> {
        let mine = |number: u64| number % u64::from(self.of) == u64::from(self.part - 1);
        match self.kind {
            Kind::Hash => ids.iter().map(|id| mine(xxh64(id.as_bytes(), 0))).collect(),
            Kind::Slice => {
                let mut order: Vec<usize> = (0..ids.len()).collect();
                order.sort_by(|left, right| ids[*left].cmp(&ids[*right]));
                let mut selected = vec![false; ids.len()];
                for (number, index) in order.into_iter().enumerate() {
                    selected[index] = mine(number as u64);
                }
                selected
            }
        }
    }
}

impl Shards {
    /// Every part, in order.
    pub fn parts(self) -> impl Iterator<Item = Shard> {
        (1..=self.of).map(move |part| Shard { kind: self.kind, part, of: self.of })
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let (kind, rest) = kind(text);
        let numbers = rest.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((part, of)) if part >= 1 && part <= of => Ok(Shard { kind, part, of }),
            Some((part, of)) => Err(format!("there is no part {part} of {of}; the first is 1/{}", of.max(1))),
            None => Err("write 2/5 or hash:2/5".to_owned()),
        }
    }
}

impl FromStr for Shards {
    type Err = String;

    fn from_str(text: &str) -> Result<Shards, String> {
        let (kind, rest) = kind(text);
        match rest.parse() {
            // As many jobs as GitHub starts for one matrix.
            Ok(of @ 1..=256) => Ok(Shards { kind, of }),
            _ => Err("write a number from 1 to 256, or hash:NUMBER".to_owned()),
        }
    }
}

fn kind(text: &str) -> (Kind, &str) {
    match text.strip_prefix("hash:") {
        Some(rest) => (Kind::Hash, rest),
        None => (Kind::Slice, text.strip_prefix("slice:").unwrap_or(text)),
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind == Kind::Hash { "hash:" } else { "" };
        write!(f, "{kind}{}/{}", self.part, self.of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selected(shard: &str, ids: &[String]) -> Vec<String> {
        let selected = shard.parse::<Shard>().unwrap().select(ids);
        ids.iter().zip(selected).filter(|(_, mine)| *mine).map(|(id, _)| id.clone()).collect()
    }

    #[test]
    fn shards_are_parsed_and_printed() {
        for text in ["1/1", "2/5", "hash:5/5"] {
            assert_eq!(text.parse::<Shard>().unwrap().to_string(), text);
        }
        assert_eq!("slice:2/5".parse::<Shard>().unwrap().to_string(), "2/5");
        for (text, error) in [
            ("0/5", "there is no part 0 of 5; the first is 1/5"),
            ("6/5", "there is no part 6 of 5; the first is 1/5"),
            ("2", "write 2/5 or hash:2/5"),
            ("-1/5", "write 2/5 or hash:2/5"),
        ] {
            assert_eq!(text.parse::<Shard>().unwrap_err(), error);
        }
        let parts: Vec<String> = "hash:3".parse::<Shards>().unwrap().parts().map(|part| part.to_string()).collect();
        assert_eq!(parts, ["hash:1/3", "hash:2/3", "hash:3/3"]);
        assert!("0".parse::<Shards>().is_err() && "257".parse::<Shards>().is_err());
    }

    #[test]
    fn a_slice_takes_turns_in_the_order_of_bytes() {
        let ids = ["s/b", "s/a", "s/B", "s/c[w=10]", "s/c[w=2]"].map(str::to_owned);
        assert_eq!(selected("1/2", &ids), ["s/b", "s/B", "s/c[w=2]"]);
        assert_eq!(selected("2/2", &ids), ["s/a", "s/c[w=10]"]);
    }

    /// If a case moved to another machine, a run that spans two versions would run it twice or never.
    #[test]
    fn the_hash_is_xxh64_for_ever() {
        assert_eq!(xxh64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"dist/all-reduce", 0), 0xd85f_0d93_a855_f4d0);
        assert_eq!(selected("hash:2/7", &["dist/all-reduce".to_owned()]).len(), 1);
    }

    proptest! {
        #[test]
        fn parts_are_disjoint_and_together_everything(
            ids in proptest::collection::btree_set("[a-c]{1,6}", 0..60),
            of in 1u32..9,
            hash in any::<bool>(),
            moved in any::<prop::sample::Index>(),
        ) {
            let mut ids: Vec<String> = ids.into_iter().collect();
            let kind = if hash { Kind::Hash } else { Kind::Slice };
            let select = |ids: &[String]| Shards { kind, of }.parts().map(|part| part.select(ids)).collect::<Vec<_>>();
            let selected = select(&ids);
            for index in 0..ids.len() {
                prop_assert_eq!(selected.iter().filter(|part| part[index]).count(), 1);
            }
            let sizes = selected.iter().map(|part| part.iter().filter(|mine| **mine).count());
            if !hash && !ids.is_empty() {
                prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            }
            if ids.is_empty() {
                return Ok(());
            }
            // The order in which cases were found does not matter; by hash, neither does which other cases exist.
            let middle = moved.index(ids.len());
            ids.rotate_left(middle);
            let mut turned = select(&ids);
            turned.iter_mut().for_each(|part| part.rotate_right(middle));
            prop_assert_eq!(&turned, &selected);
            if hash {
                let all = select(&ids);
                ids.pop();
                for (before, after) in all.iter().zip(&select(&ids)) {
                    prop_assert_eq!(&before[..ids.len()], &after[..]);
                }
            }
        }
    }
}
