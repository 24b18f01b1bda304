//! The driver that a machine claims to have: its version, and the CUDA version that it supports.

/// A driver, as NVML and CUDA report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// "580.65.06"
    pub version: String,
    /// 1000 x major + 10 x minor of the CUDA version that it supports, 13000.
    pub cuda: i32,
}

/// (CUDA, the driver that came with it), the newest last. From the release notes of the CUDA Toolkit, "CUDA Toolkit and
/// Corresponding Driver Versions", the first release of each; for 13.3 and later, the drivers that NVIDIA's NVML packages
/// (nvidia-ml-py) are named after.
pub const KNOWN: &[(&str, &str)] = &[
    ("11.8", "520.61.05"),
    ("12.0", "525.60.13"),
    ("12.1", "530.30.02"),
    ("12.2", "535.54.03"),
    ("12.3", "545.23.06"),
    ("12.4", "550.54.14"),
    ("12.5", "555.42.02"),
    ("12.6", "560.28.03"),
    ("12.8", "570.26"),
    ("12.9", "575.51.03"),
    ("13.0", "580.65.06"),
    ("13.1", "590.44.01"),
    ("13.2", "595.45.04"),
    ("13.3", "610.43"),
    ("13.5", "615.71"),
];

impl Driver {
    /// The newest known driver.
    pub fn newest() -> Driver {
        let (cuda, version) = KNOWN[KNOWN.len() - 1];
        Driver { version: version.to_owned(), cuda: number(cuda).expect("the table is right") }
    }

    /// `13.0` for the driver that came with this CUDA, or `580.95.05:13.0` for another one that supports it.
    pub fn parse(text: &str) -> Option<Driver> {
        let text = text.trim();
        let Some((version, cuda)) = text.split_once(':') else {
            let (cuda, version) = KNOWN.iter().find(|(cuda, _)| *cuda == text)?;
            return Some(Driver { version: (*version).to_owned(), cuda: number(cuda)? });
        };
        let is_version = (2..=3).contains(&version.split('.').count())
            && version.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        let cuda = number(cuda)?;
        is_version.then(|| Driver { version: version.to_owned(), cuda })
    }

    /// What [`Driver::parse`] accepts, for a message.
    pub fn expected() -> String {
        let known: Vec<&str> = KNOWN.iter().map(|(cuda, _)| *cuda).collect();
        format!("a CUDA version ({}), or a driver's version and its CUDA, `580.95.05:13.0`", known.join(", "))
    }
}

/// 13000 for "13.0".
fn number(cuda: &str) -> Option<i32> {
    let (major, minor) = cuda.split_once('.')?;
    let (major, minor): (i32, i32) = (major.parse().ok()?, minor.parse().ok()?);
    ((11..100).contains(&major) && (0..10).contains(&minor)).then_some(major * 1000 + minor * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_by_table() {
        let driver = |version: &str, cuda| Some(Driver { version: version.to_owned(), cuda });
        for (text, expected) in [
            ("13.0", driver("580.65.06", 13000)),
            (" 12.8 ", driver("570.26", 12080)),
            ("580.95.05:13.0", driver("580.95.05", 13000)),
            ("615.71:13.5", driver("615.71", 13050)),
            ("12.7", None),
            ("13", None),
            ("580.95.05", None),
            ("580:13.0", None),
            ("580.x:13.0", None),
            ("580.95.05:13.10", None),
            ("", None),
        ] {
            assert_eq!(Driver::parse(text), expected, "{text}");
        }
        assert!(KNOWN.iter().all(|(cuda, _)| Driver::parse(cuda).is_some()));
        assert!(KNOWN.is_sorted_by_key(|(cuda, _)| number(cuda)));
        assert_eq!(Driver::newest().cuda, 13050);
    }
}
