//! Other ranks' buffers in this process.

use protocol::record::ErrorCode;

use super::mapping::Mappings;
use crate::call::Place;
use crate::failure::Failure;
use crate::operation::context::OpContext;
use crate::refusal;

/// Another rank's buffer in this process: directly for a rank of the same process, else through its memory file.
pub(crate) fn reach(
    mappings: &mut Mappings,
    context: &OpContext,
    what: &dyn Fn() -> String,
    other: u32,
    place: &Place,
    address: u64,
    bytes: usize,
) -> Result<*mut u8, Failure> {
    let pid = context.members[other as usize].pid;
    if pid == context.members[context.rank as usize].pid && (place.valid == 0 || address != 0) {
        return Ok(address as *mut u8);
    }
    mappings.resolve(pid, place, bytes).map_err(|error| {
        let gone = matches!(error.kind(), std::io::ErrorKind::NotFound);
        let code = if gone { ErrorCode::RankLost } else { ErrorCode::System };
        let what = format!("{} cannot map the memory of {}", what(), context.name(other));
        Failure::new(code, refusal::explain(&what, &error)).blaming(vec![other])
    })
}
