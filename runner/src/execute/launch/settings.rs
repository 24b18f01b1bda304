//! The user's settings of devices and cluster, from a command line or `FAKEGPU_*` variables, checked before anything
//! starts.

use std::path::Path;

use clap::Args;
use model::{cluster_file, diagnostic};
use protocol::env::{self, BadValue, Variable};
use protocol::ids::Rank;
use protocol::plan::{ClusterPlan, FabricPlan, NodePlan};

use super::profiles::{MOST, known, listed};

/// The devices, as `fgpu` and `ftest exec` take them.
#[derive(Args, Clone, Debug, Default)]
pub struct DeviceArguments {
    /// Profile of every device [env: FAKEGPU_PROFILE; default: a100]
    #[arg(long, value_name = "ID")]
    pub profile: Option<String>,
    /// Number of devices [env: FAKEGPU_DEVICE_COUNT; default: 8]
    #[arg(long, value_name = "N")]
    pub device_count: Option<String>,
    /// The devices one by one, `a100:2,h100`; wins over the two above [env: FAKEGPU_PROFILES]
    #[arg(long, value_name = "ID[:N],...")]
    pub devices: Option<String>,
}

impl DeviceArguments {
    /// The profile of each device, from the arguments, else the environment, else eight A100s.
    ///
    /// # Errors
    /// [`BadValue`] naming the option or the variable that has the wrong value.
    pub fn resolve(&self) -> Result<Vec<String>, BadValue> {
        self.resolve_with(|variable| std::env::var(variable.name).ok().filter(|value| !value.is_empty()))
    }

    fn resolve_with(&self, get: impl Fn(&Variable) -> Option<String>) -> Result<Vec<String>, BadValue> {
        // A profile on the command line overrides a list in the environment.
        let nearer = self.profile.is_some() || self.device_count.is_some();
        if let Some(list) = self.devices.clone().or_else(|| get(&env::PROFILES).filter(|_| !nearer)) {
            return listed(&list).map_err(|bad| of_option("--devices", &self.devices, bad));
        }
        let id = self.profile.clone().or_else(|| get(&env::PROFILE)).unwrap_or_else(|| "a100".to_owned());
        let count = self.device_count.clone().or_else(|| get(&env::DEVICE_COUNT)).unwrap_or_else(|| "8".to_owned());
        let count = env::DEVICE_COUNT.integer(&count, 1, MOST);
        let count = count.map_err(|bad| of_option("--device-count", &self.device_count, bad))?;
        let id = known(&env::PROFILE, &id, &id).map_err(|bad| of_option("--profile", &self.profile, bad))?;
        Ok(vec![id; count as usize])
    }

    /// One node with these devices.
    ///
    /// # Errors
    /// [`BadValue`] as in [`DeviceArguments::resolve`].
    pub fn single_node(&self) -> Result<ClusterPlan, BadValue> {
        let gpus = self.resolve()?;
        let fabric = |kind: &str, bandwidth_gbps, latency_us| FabricPlan {
            kind: kind.to_owned(),
            bandwidth_gbps,
            latency_us,
            oversubscription: 1.0,
        };
        let ranks = (0..gpus.len() as u32).map(Rank).collect();
        Ok(ClusterPlan {
            name: "single-node".to_owned(),
            default_backend: "nccl".to_owned(),
            nodes: vec![NodePlan { id: "node0".to_owned(), host: "127.0.0.1".to_owned(), ranks, gpus }],
            // The default of a cluster file that names no fabric.
            intra_node: fabric("nvlink", 300.0, 3.0),
            inter_node: fabric("infiniband", 200.0, 15.0),
            custom_profiles: Default::default(),
            machine: None,
        })
    }
}

/// The error names the option if that was given, because nobody set the variable.
fn of_option(option: &'static str, given: &Option<String>, bad: BadValue) -> BadValue {
    if given.is_some() { BadValue { variable: option, ..bad } } else { bad }
}

/// Reads a cluster file. The error is ready to print: every mistake with its place and a pointer.
///
/// # Errors
/// The rendered mistakes, or why the file cannot be read.
pub fn read_cluster(file: &Path) -> Result<ClusterPlan, String> {
    let shown = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| format!("cluster file {shown}: {error}"))?;
    let beside = file.parent().unwrap_or(Path::new("."));
    let load = |profile: &str| {
        let place = beside.join(profile);
        std::fs::read_to_string(&place).map_err(|error| format!("{}: {error}", place.display()))
    };
    cluster_file::parse(&shown, &text, &load)
        .map_err(|mistakes| format!("the cluster file has mistakes\n{}", diagnostic::render(&mistakes, &text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::launch::variables::check;

    fn devices(arguments: [Option<&str>; 3], environment: &[(&str, &str)]) -> Result<Vec<String>, BadValue> {
        let [profile, device_count, devices] = arguments.map(|argument| argument.map(str::to_owned));
        DeviceArguments { profile, device_count, devices }.resolve_with(|variable| {
            environment.iter().find(|(name, _)| *name == variable.name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_nearer_word_counts() {
        assert_eq!(devices([None; 3], &[]).unwrap(), vec!["a100"; 8]);
        assert_eq!(devices([Some("h100"), Some("2"), None], &[("FAKEGPU_PROFILES", "a100:3")]).unwrap(), ["h100"; 2]);
        assert_eq!(devices([None; 3], &[("FAKEGPU_PROFILES", "a100:2,H100")]).unwrap(), ["a100", "a100", "h100"]);
        assert_eq!(devices([Some("h100"), None, Some("a100")], &[]).unwrap(), ["a100"]);
    }

    #[test]
    fn a_bad_value_names_its_option_or_variable() {
        let cases: [([Option<&str>; 3], &str); 4] = [
            ([None, Some("0"), None], "--device-count=0: expected"),
            ([Some("h1000"), None, None], "did you mean `h100`?"),
            ([None, None, Some("a100:0")], "--devices=a100:0: expected"),
            ([None, None, Some("a100,,h100")], "--devices=a100,,h100: expected"),
        ];
        for (arguments, expected) in cases {
            let error = devices(arguments, &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = devices([None, Some("2"), None], &[("FAKEGPU_PROFILE", "h1000")]).unwrap_err().to_string();
        assert!(error.starts_with("FAKEGPU_PROFILE=h1000: "), "{error}");
        assert!(check(&env::UNSUPPORTED_API, "wran").is_err());
        assert!(check(&env::REPORT_PATH, "anything").is_ok());
        assert!(check(&env::DRIVER, "12.7").unwrap_err().to_string().contains("12.8"));
    }
}
