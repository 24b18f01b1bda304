//! Identities: plain numbers with a name each, so that a rank is never taken for a device.

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
