//! Identities: plain numbers, each with its own type, so that a rank is never mistaken for a device.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A participant: its position in the whole launch (a *global* rank) or in one communicator, depending on the field.
    Rank(u32)
);
id!(
    /// A communicator, numbered by the coordinator from 1 in the order in which they formed.
    CommunicatorId(u64)
);
id!(
    /// The position of a collective in its communicator, from 1.
    Sequence(u64)
);
id!(
    /// A [`CallSite`](crate::site::CallSite) of one process, numbered by it from 1; 0 where the place is not known.
    SiteId(u32)
);

/// Several things of one kind in a sentence: "rank 1", "ranks 0, 2 and 5", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 56 others".
pub fn names<T: std::fmt::Display>(one: &str, many: &str, which: &[T]) -> String {
    const SHOWN: usize = 8;
    let list = |part: &[T]| part.iter().map(T::to_string).collect::<Vec<_>>().join(", ");
    match which {
        [] => format!("no {one}"),
        [single] => format!("{one} {single}"),
        [first @ .., last] if first.len() < SHOWN => format!("{many} {} and {last}", list(first)),
        all => format!("{many} {} and {} others", list(&all[..SHOWN]), all.len() - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_like_a_sentence() {
        let of = |count: u32| names("rank", "ranks", &(0..count).map(Rank).collect::<Vec<_>>());
        assert_eq!(of(0), "no rank");
        assert_eq!(of(1), "rank 0");
        assert_eq!(of(2), "ranks 0 and 1");
        assert_eq!(of(8), "ranks 0, 1, 2, 3, 4, 5, 6 and 7");
        assert_eq!(of(10), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 others");
        assert_eq!(names("its rank", "its ranks", &[3, 5]), "its ranks 3 and 5");
    }
}
