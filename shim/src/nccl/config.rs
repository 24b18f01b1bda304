//! `ncclConfig_t`: the requested properties of a communicator. Only `blocking` has an effect here; the rest is refused where
//! NCCL refuses it.

use std::ffi::{c_int, c_uint};

use abi::argument::Out;

use super::error::{NcclError, NcclResult};
use super::header::{CONFIG_MAGIC, CONFIG_UNDEFINED, Config};

/// The maximum number of channels in NCCL.
const CHANNELS: c_int = 64;

/// True if the config asks not to wait for the other ranks; without a config, as in the parent.
///
/// # Errors
/// `ncclInvalidArgument` for a config that NCCL does not accept either.
pub(super) fn in_background(config: Out<Config>, inherited: bool) -> NcclResult<bool> {
    if config.is_null() {
        return Ok(inherited);
    }
    let config = read(config)?;
    check(&config).map_err(|mistake| NcclError::INVALID_ARGUMENT.because(mistake))?;
    Ok(config.blocking == 0)
}

/// The fields that the caller's NCCL has; the others are undefined.
fn read(config: Out<Config>) -> NcclResult<Config> {
    let given = Out(config.0.cast::<usize>()).get()?.min(size_of::<Config>());
    let mut known = undefined();
    // SAFETY: C passed a config, which begins with its own size; no more than that is read, and no more than `known` holds.
    unsafe { std::ptr::copy_nonoverlapping(config.0.cast::<u8>(), (&raw mut known).cast::<u8>(), given) };
    if known.magic != CONFIG_MAGIC {
        return Err(NcclError::INVALID_ARGUMENT.because("the config was not made with NCCL_CONFIG_INITIALIZER"));
    }
    Ok(known)
}

fn undefined() -> Config {
    Config {
        size: size_of::<Config>(),
        magic: 0,
        version: 0,
        blocking: CONFIG_UNDEFINED,
        cga_cluster_size: CONFIG_UNDEFINED,
        min_ctas: CONFIG_UNDEFINED,
        max_ctas: CONFIG_UNDEFINED,
        net_name: std::ptr::null(),
        split_share: CONFIG_UNDEFINED,
        traffic_class: CONFIG_UNDEFINED,
        comm_name: std::ptr::null(),
        collnet_enable: CONFIG_UNDEFINED,
        cta_policy: CONFIG_UNDEFINED,
        shrink_share: CONFIG_UNDEFINED,
        nvls_ctas: CONFIG_UNDEFINED,
        channels_per_net_peer: CONFIG_UNDEFINED,
        nvlink_centric_sched: CONFIG_UNDEFINED,
        graph_usage_mode: CONFIG_UNDEFINED,
        num_rma_ctx: CONFIG_UNDEFINED,
        max_p2p_peers: CONFIG_UNDEFINED,
        graph_stream_ordering: CONFIG_UNDEFINED,
    }
}

/// Checks the values as NCCL does (`parseCommConfig`). A field counts only if the caller's version has it.
fn check(config: &Config) -> Result<(), String> {
    // (field, value, since, least, most)
    let fields: [(&str, c_int, c_uint, c_int, c_int); 15] = [
        ("blocking", config.blocking, 21400, 0, 1),
        ("cgaClusterSize", config.cga_cluster_size, 21700, 0, c_int::MAX),
        ("minCTAs", config.min_ctas, 21700, 1, c_int::MAX),
        ("maxCTAs", config.max_ctas, 21700, 1, c_int::MAX),
        ("splitShare", config.split_share, 0, 0, 1),
        ("collnetEnable", config.collnet_enable, 22700, 0, 1),
        ("CTAPolicy", config.cta_policy, 22700, 0, 3),
        ("shrinkShare", config.shrink_share, 22700, 0, 1),
        ("nvlsCTAs", config.nvls_ctas, 22700, 1, c_int::MAX),
        ("nChannelsPerNetPeer", config.channels_per_net_peer, 22800, 1, CHANNELS),
        ("nvlinkCentricSched", config.nvlink_centric_sched, 22800, 0, 1),
        ("graphUsageMode", config.graph_usage_mode, 22900, 0, 2),
        ("numRmaCtx", config.num_rma_ctx, 22900, 0, c_int::MAX),
        ("maxP2pPeers", config.max_p2p_peers, 23000, 1, c_int::MAX),
        ("graphStreamOrdering", config.graph_stream_ordering, 23005, 0, 1),
    ];
    for (field, value, since, least, most) in fields {
        if value == CONFIG_UNDEFINED || config.version < since || (least..=most).contains(&value) {
            continue;
        }
        let expected = if most == c_int::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
        return Err(format!("config.{field} is {value}, expected {expected}"));
    }
    let (least, most) = (config.min_ctas, config.max_ctas);
    if config.version >= 21700 && least != CONFIG_UNDEFINED && most != CONFIG_UNDEFINED && least > most {
        return Err(format!("config.minCTAs is {least}, more than config.maxCTAs, which is {most}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_refused_from_the_version_on_that_has_the_field() {
        let good = Config { version: 23007, ..undefined() };
        assert_eq!(check(&good), Ok(()));
        let refused = |config: Config| check(&config).unwrap_err();
        assert_eq!(refused(Config { blocking: 2, ..good }), "config.blocking is 2, expected 0 to 1");
        assert_eq!(refused(Config { max_ctas: 0, ..good }), "config.maxCTAs is 0, expected 1 or more");
        let both = Config { min_ctas: 8, max_ctas: 4, ..good };
        assert_eq!(refused(both), "config.minCTAs is 8, more than config.maxCTAs, which is 4");
        let many = Config { channels_per_net_peer: 65, ..good };
        assert_eq!(refused(many), "config.nChannelsPerNetPeer is 65, expected 1 to 64");
        assert_eq!(check(&Config { version: 22705, ..many }), Ok(()), "a field that 2.27 does not have");
    }
}
