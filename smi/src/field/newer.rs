//! Fields that nvidia-smi has had since 580 according to the changelog in NVIDIA's manual, and no simulated GPU has values for.
//! The manual gives no units, so headers have none.

use super::{Field, field};
use crate::gpu::Read::Nothing;

const fn smoothing(name: &'static [&'static str]) -> Field {
    field(name, "", Nothing, "A setting of power smoothing.")
}

const fn base(name: &'static [&'static str]) -> Field {
    field(name, "", Nothing, "The base power of the GPU.")
}

pub(super) static NEWER: &[Field] = &[
    field(&["bbx.time_run"], "", Nothing, "Seconds that the GPU has run with the driver loaded."),
    base(&["gpu.base.current"]),
    base(&["gpu.base.requested"]),
    base(&["gpu.base.default"]),
    base(&["gpu.base.min"]),
    base(&["gpu.base.max"]),
    smoothing(&["power_smoothing.enabled"]),
    smoothing(&["power_smoothing.priv_level"]),
    smoothing(&["power_smoothing.imm_ramp_down"]),
    smoothing(&["power_smoothing.tmp_floor"]),
    smoothing(&["power_smoothing.tmp_ceil"]),
    smoothing(&["power_smoothing.hw_lifetime_remaining_percent"]),
    smoothing(&["power_smoothing.max_percent_tmp_floor"]),
    smoothing(&["power_smoothing.min_percent_tmp_floor"]),
    smoothing(&["power_smoothing.num_preset_profiles"]),
    smoothing(&["power_smoothing.active_profile"]),
    smoothing(&["power_smoothing.curr_profile.percent_tmp_floor"]),
    smoothing(&["power_smoothing.curr_profile.ramp_up_rate"]),
    smoothing(&["power_smoothing.curr_profile.ramp_down_rate"]),
    smoothing(&["power_smoothing.curr_profile.ramp_down_hysteresis"]),
    smoothing(&["power_smoothing.admin_override.percent_tmp_floor"]),
    smoothing(&["power_smoothing.admin_override.ramp_up_rate"]),
    smoothing(&["power_smoothing.admin_override.ramp_down_rate"]),
    smoothing(&["power_smoothing.admin_override.ramp_down_hysteresis"]),
    smoothing(&["power_smoothing.supported"]),
    smoothing(&["power_smoothing.primary_power_floor"]),
    smoothing(&["power_smoothing.secondary_power_floor"]),
    smoothing(&["power_smoothing.min_primary_floor_activation_offset"]),
    smoothing(&["power_smoothing.min_primary_floor_activation_point"]),
    smoothing(&["power_smoothing.window_multiplier"]),
    smoothing(&["power_smoothing.curr_profile.secondary_power_floor"]),
    smoothing(&["power_smoothing.curr_profile.primary_floor_act_window_multiplier"]),
    smoothing(&["power_smoothing.curr_profile.primary_floor_tar_window_multiplier"]),
    smoothing(&["power_smoothing.curr_profile.primary_floor_act_offset"]),
    smoothing(&["power_smoothing.admin_override.secondary_power_floor"]),
    smoothing(&["power_smoothing.admin_override.primary_floor_act_window_multiplier"]),
    smoothing(&["power_smoothing.admin_override.primary_floor_tar_window_multiplier"]),
    smoothing(&["power_smoothing.admin_override.primary_floor_act_offset"]),
    smoothing(&["power_smoothing.soc_power_smoothing_enabled"]),
];
