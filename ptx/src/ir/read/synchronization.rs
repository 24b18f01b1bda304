//! Synchronization points. Their operations are printed as `Debug` prints them: a name, with fields in parentheses or braces.

use super::cursor::{Cursor, Read};
use super::operation::{results, value};
use crate::ir::names::Named;
use crate::ir::program::*;
use crate::number::Scalar;
use crate::runtime::matrix::{Fragment, MatrixAccess, Mma, Role};
use crate::runtime::sync::{BarrierKind, ReduxOp, ShflMode, SyncOp, VoteMode};
use crate::runtime::warpgroup::WarpgroupMma;

/// Something that is read as `Debug` prints it.
trait FromDebug: Sized {
    fn read(cursor: &mut Cursor<'_>) -> Read<Self>;
}

impl FromDebug for u32 {
    fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        cursor.number()
    }
}

impl FromDebug for bool {
    fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        cursor.meaning("true or false", |word| word.parse().ok())
    }
}

impl FromDebug for Scalar {
    fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        cursor.meaning("a type", |word| Self::named(&word.to_lowercase()))
    }
}

fn field<T: FromDebug>(cursor: &mut Cursor<'_>, name: &str) -> Read<T> {
    cursor.expect(name)?;
    cursor.expect(":")?;
    let value = T::read(cursor)?;
    cursor.eat(",");
    Ok(value)
}

fn position<T: FromDebug>(cursor: &mut Cursor<'_>) -> Read<T> {
    let value = T::read(cursor)?;
    cursor.eat(",");
    Ok(value)
}

/// The variants of enums: those with nothing, `(_)` with fields by position, and `{ name }` with named ones.
macro_rules! variants {
    ($($type:ident { $($name:ident $(($($by_position:tt),*))? $({ $($field:ident),* })?),* $(,)? })*) => {
        $(impl FromDebug for $type {
            fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
                let before = cursor.clone();
                match cursor.word() {
                    $(stringify!($name) => variants!(@variant cursor $name $(($($by_position),*))? $({ $($field),* })?),)*
                    word => before.fail(format!("`{word}` is not a {}", stringify!($type))),
                }
            }
        })*
    };
    (@variant $cursor:ident $name:ident) => { Ok(Self::$name) };
    (@variant $cursor:ident $name:ident ($($by_position:tt),*)) => {{
        $cursor.expect("(")?;
        let value = Self::$name($(variants!(@position $cursor $by_position)),*);
        $cursor.expect(")")?;
        Ok(value)
    }};
    (@variant $cursor:ident $name:ident { $($field:ident),* }) => {{
        $cursor.expect("{")?;
        let value = Self::$name { $($field: field($cursor, stringify!($field))?),* };
        $cursor.expect("}")?;
        Ok(value)
    }};
    (@position $cursor:ident $by_position:tt) => { position($cursor)? };
}

/// Structures with their fields.
macro_rules! structures {
    ($($type:ident { $($field:ident),* $(,)? })*) => {
        $(impl FromDebug for $type {
            fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
                cursor.expect(stringify!($type))?;
                cursor.expect("{")?;
                let value = Self { $($field: field(cursor, stringify!($field))?),* };
                cursor.expect("}")?;
                Ok(value)
            }
        })*
    };
}

variants! {
    ShflMode { Up, Down, Butterfly, Index }
    VoteMode { All, Any, Uniform, Ballot }
    ReduxOp { Add, Min, Max, And, Or, Xor, FloatMin { absolute, nan }, FloatMax { absolute, nan } }
    BarrierKind { Sync, Arrive, Popc, And, Or, Warpgroup }
    Role { A, B, C, D }
    SyncOp {
        Yield,
        Step,
        Shfl(_),
        Vote(_),
        Match { all, wide },
        Redux(_, _),
        ActiveMask,
        Elect,
        WarpSync,
        Barrier { kind, aligned },
        ClusterArrive,
        ClusterWait,
        Mma(_),
        WarpgroupMma(_),
        LoadMatrix(_),
        StoreMatrix(_),
        MoveMatrix,
        LoadFragment(_, _),
        StoreFragment(_, _),
    }
}

structures! {
    Mma { m, n, k, a, b, c, d, xor, saturate, wmma }
    WarpgroupMma { n, k, a, b, d, a_in_memory, a_transposed, b_transposed, a_negated, b_negated, saturate }
    MatrixAccess { count, transposed, shared }
    Fragment { m, n, k, role, scalar, row }
}

/// A synchronization point, behind its number.
pub(super) fn point(cursor: &mut Cursor<'_>, site: u32) -> Read<SyncPoint> {
    let dst = results(cursor)?;
    let op = SyncOp::read(cursor)?;
    let mut src = Vec::new();
    if !cursor.eat(",") {
        src.push(value(cursor)?);
        cursor.expect(",")?;
    }
    let convergence = loop {
        let mut ahead = cursor.clone();
        if let Some(convergence) = Convergence::named(ahead.word()) {
            *cursor = ahead;
            break convergence;
        }
        if cursor.eat("mask in source") {
            break Convergence::Mask(cursor.number()?);
        }
        src.push(value(cursor)?);
        cursor.expect(",")?;
    };
    cursor.expect(",")?;
    cursor.expect("resume")?;
    let resume = cursor.numbered("b")?;
    Ok(SyncPoint { op, convergence, dst, src, site, resume })
}
