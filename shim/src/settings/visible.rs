//! `CUDA_VISIBLE_DEVICES`: the GPUs that CUDA shows, and their order.

use std::sync::OnceLock;

use super::Gpu;

/// One GPU that CUDA shows; its index is its ordinal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visible {
    /// What it is.
    pub(crate) gpu: &'static Gpu,
}

/// The GPUs that this process sees, in order. The mask is read at the first call; bad settings show none.
pub(crate) fn gpus() -> &'static [Visible] {
    static VISIBLE: OnceLock<Vec<Visible>> = OnceLock::new();
    VISIBLE.get_or_init(|| {
        let Ok(settings) = super::get() else { return Vec::new() };
        let mask = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let chosen = choose(&settings.gpus, mask.as_deref());
        chosen.into_iter().map(|index| Visible { gpu: &settings.gpus[index] }).collect()
    })
}

/// Indices into `gpus` of the devices shown. NVIDIA's rule (CUDA C++ Programming Guide, "CUDA Environment Variables"):
/// indices or UUIDs (a unique prefix is enough); the list ends before its first invalid entry; a repeated device makes
/// the whole list empty; an empty value hides all.
fn choose(gpus: &[Gpu], mask: Option<&str>) -> Vec<usize> {
    let Some(mask) = mask else { return (0..gpus.len()).collect() };
    let mut chosen: Vec<usize> = Vec::new();
    for entry in mask.split(',').map(str::trim) {
        let found = if entry.starts_with("GPU-") {
            let mut matching = (0..gpus.len()).filter(|index| gpus[*index].uuid_text().starts_with(entry));
            matching.next().filter(|_| matching.next().is_none())
        } else {
            leading_number(entry).filter(|index| *index < gpus.len())
        };
        let Some(index) = found else { break };
        if chosen.contains(&index) {
            return Vec::new();
        }
        chosen.push(index);
    }
    chosen
}

/// The driver reads entries as `strtol` does: "1x" is 1.
fn leading_number(entry: &str) -> Option<usize> {
    let digits = entry.bytes().take_while(u8::is_ascii_digit).count();
    entry[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use protocol::ids::Rank;

    use super::*;

    #[test]
    fn the_mask_reads_as_nvidias() {
        let profile = protocol::profile::builtin("a100").unwrap();
        let gpus: Vec<Gpu> =
            (0..4).map(|n| Gpu { profile: profile.clone(), rank: Rank(n), node: 0, local: n }).collect();
        let second = gpus[1].uuid_text();
        for (mask, shown) in [
            (None, vec![0, 1, 2, 3]),
            (Some(""), vec![]),
            (Some("-1"), vec![]),
            (Some("2,0"), vec![2, 0]),
            (Some(" 3 , 1 "), vec![3, 1]),
            (Some("1,7,2"), vec![1]),
            (Some("0,-1,1"), vec![0]),
            (Some("1,1"), vec![]),
            (Some(&second), vec![1]),
            (Some(&second[..20]), vec![1]),
            (Some("GPU-"), vec![]),
            (Some("none"), vec![]),
        ] {
            assert_eq!(choose(&gpus, mask), shown, "{mask:?}");
        }
    }
}
